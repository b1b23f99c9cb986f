// An SMTP client that costs little, the same for every server: so many connections, each with one mail after the other, MAIL, RCPT and DATA
// in one packet (RFC 2920). Every mail that it counts was answered with 250. One thread, as wrk has for HTTP: what is measured shares the
// cores with it.
//
//   smtp-load PORT tls|clear COUNT CONNECTIONS kept|single FROM [USERNAME PASSWORD]
//
// prints `RESULT <mails per second>`; what a server said instead of what was to come goes to standard error, and the status is 1.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 10000, WORDS_MAX = 2048, DRAIN_MS = 1000, SILENCE_MS = 60000 };

/** The reply that a connection waits for. */
enum stage { GREETING, HELLO, LOGIN, FROM, TO, DATA, DOT, CLOSING };
static const char *const codes[] = {"220", "250", "235", "250", "250", "354", "250", "221"};

struct connection {
  int fd;
  SSL *tls;
  enum stage stage;
  bool writing;             // waits until the socket takes the rest of `out`
  char in[WORDS_MAX];       // a reply that has not ended yet
  size_t in_length;
  char out[WORDS_MAX];      // what is to be written, and what of it was
  size_t out_length, out_done;
  long mail;                // the number of the mail that is being sent
};

static struct {
  int port, epoll;
  long count, begun, answered;
  bool kept, login;
  const char *from;
  char credentials[512];
  SSL_CTX *tls;
  long open;
} load;

static char text[1024];

static void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void fail(const char *format, ...) {
  va_list words;
  va_start(words, format);
  fputs("smtp-load: ", stderr);
  vfprintf(stderr, format, words);
  fputc('\n', stderr);
  exit(1);
}

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec + at.tv_nsec / 1e9;
}

static void listen_for(struct connection *each, uint32_t events, int change) {
  struct epoll_event wanted = {.events = events, .data.ptr = each};
  if (epoll_ctl(load.epoll, change, each->fd, &wanted) != 0) fail("epoll_ctl: %s", strerror(errno));
}

/** Writes what the socket takes; the rest goes when it takes more. */
static void flush_out(struct connection *each) {
  while (each->out_done < each->out_length) {
    const char *from = each->out + each->out_done;
    size_t length = each->out_length - each->out_done;
    ssize_t wrote;
    if (each->tls != NULL) {
      wrote = SSL_write(each->tls, from, (int)length);
      if (wrote <= 0) {
        int why = SSL_get_error(each->tls, (int)wrote);
        if (why != SSL_ERROR_WANT_WRITE && why != SSL_ERROR_WANT_READ) fail("TLS: cannot write (%d)", why);
        wrote = -1;
      }
    } else {
      wrote = write(each->fd, from, length);
      if (wrote < 0 && errno != EAGAIN) fail("cannot write: %s", strerror(errno));
    }
    if (wrote < 0) {
      if (!each->writing) listen_for(each, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
      each->writing = true;
      return;
    }
    each->out_done += (size_t)wrote;
  }
  each->out_length = each->out_done = 0;
  if (each->writing) listen_for(each, EPOLLIN, EPOLL_CTL_MOD);
  each->writing = false;
}

static void say(struct connection *each, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct connection *each, const char *format, ...) {
  va_list words;
  va_start(words, format);
  int length = vsnprintf(each->out + each->out_length, WORDS_MAX - each->out_length, format, words);
  va_end(words);
  if (length < 0 || (size_t)length >= WORDS_MAX - each->out_length) fail("a command is too long");
  each->out_length += (size_t)length;
  flush_out(each);
}

static void connect_one(void) {
  struct connection *each = calloc(1, sizeof *each);
  if (each == NULL) fail("no memory");
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)load.port)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  each->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int yes = 1;
  if (each->fd < 0 || setsockopt(each->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0)
    fail("no socket: %s", strerror(errno));
  if (connect(each->fd, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS)
    fail("cannot connect: %s", strerror(errno));
  listen_for(each, load.tls != NULL ? EPOLLIN | EPOLLOUT : EPOLLIN, EPOLL_CTL_ADD);
  if (load.tls != NULL) {
    each->tls = SSL_new(load.tls);
    if (each->tls == NULL || SSL_set_fd(each->tls, each->fd) != 1) fail("TLS: no session");
    SSL_set_connect_state(each->tls);
    each->writing = true; // the first words of the handshake go when the connection stands
  }
  load.open++;
}

/** The next mail, or the end of the session when no more are to be sent. */
static void next_mail(struct connection *each) {
  if (load.begun == load.count) {
    each->stage = CLOSING;
    say(each, "QUIT\r\n");
    return;
  }
  each->mail = load.begun++;
  each->stage = FROM;
  say(each, "MAIL FROM:<%s>\r\nRCPT TO:<u%ld@d%ld.example.com>\r\nDATA\r\n", load.from, each->mail, each->mail % 20);
}

static void content(struct connection *each) {
  long id = each->mail;
  say(each,
      "From: %s\r\nTo: u%ld@d%ld.example.com\r\nSubject: Order %ld\r\nDate: Sat, 21 Nov 2026 00:00:00 +0000\r\n"
      "Message-ID: <%ld.%d@bench.example>\r\n\r\n%s.\r\n",
      load.from, id, id % 20, id, id, (int)getpid(), text);
}

static void answered(struct connection *each) {
  switch (each->stage) {
  case GREETING:
    each->stage = HELLO;
    say(each, "EHLO bench.example\r\n");
    break;
  case HELLO:
    if (load.login) {
      each->stage = LOGIN;
      say(each, "AUTH PLAIN %s\r\n", load.credentials);
      break;
    }
    next_mail(each);
    break;
  case LOGIN:
    next_mail(each);
    break;
  case FROM:
    each->stage = TO;
    break;
  case TO:
    each->stage = DATA;
    break;
  case DATA:
    each->stage = DOT;
    content(each);
    break;
  case DOT:
    load.answered++;
    if (load.kept) {
      next_mail(each);
      break;
    }
    each->stage = CLOSING;
    say(each, "QUIT\r\n");
    if (load.begun < load.count) connect_one();
    break;
  case CLOSING:
    break;
  }
}

/** The lines that have come; of a reply of several the last one counts (RFC 5321, 4.2.1). */
static void hear(struct connection *each) {
  char *line = each->in;
  for (;;) {
    char *end = memchr(line, '\n', each->in_length - (size_t)(line - each->in));
    if (end == NULL) break;
    if (end - line < 4 || line[3] != '-') {
      if (end - line < 3 || memcmp(line, codes[each->stage], 3) != 0)
        fail("a server said %.*s instead of %s", (int)(end - line), line, codes[each->stage]);
      answered(each);
    }
    line = end + 1;
  }
  each->in_length -= (size_t)(line - each->in);
  memmove(each->in, line, each->in_length);
  if (each->in_length == WORDS_MAX) fail("a reply is too long");
}

static void close_one(struct connection *each) {
  if (each->stage != CLOSING) fail("a server closed the connection where %s was to come", codes[each->stage]);
  if (each->tls != NULL) SSL_free(each->tls);
  close(each->fd);
  free(each);
  load.open--;
}

static void ready(struct connection *each, uint32_t events) {
  if (each->tls != NULL && !SSL_is_init_finished(each->tls)) {
    int shaken = SSL_do_handshake(each->tls);
    if (shaken != 1) {
      int why = SSL_get_error(each->tls, shaken);
      if (why == SSL_ERROR_WANT_READ) {
        if (each->writing) listen_for(each, EPOLLIN, EPOLL_CTL_MOD);
        each->writing = false;
        return;
      }
      if (why == SSL_ERROR_WANT_WRITE) return;
      fail("TLS: the handshake failed (%d): %s", why, ERR_reason_error_string(ERR_peek_error()));
    }
  }
  if (events & EPOLLOUT) flush_out(each);
  for (;;) {
    size_t room = WORDS_MAX - each->in_length;
    ssize_t got;
    if (each->tls != NULL) {
      got = SSL_read(each->tls, each->in + each->in_length, (int)room);
      if (got <= 0) {
        int why = SSL_get_error(each->tls, (int)got);
        if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return;
        got = 0; // whichever way it ended, close_one says whether it may
      }
    } else {
      got = read(each->fd, each->in + each->in_length, room);
      if (got < 0 && errno == EAGAIN) return;
    }
    if (got <= 0) {
      close_one(each);
      return;
    }
    each->in_length += (size_t)got;
    hear(each);
  }
}

/** Until everything is answered, or in the end every connection is closed. */
static void turn(bool draining, double until) {
  struct epoll_event events[256];
  while (draining ? load.open > 0 && now() < until : load.answered < load.count) {
    int many = epoll_wait(load.epoll, events, 256, draining ? 50 : SILENCE_MS);
    if (many < 0 && errno != EINTR) fail("epoll_wait: %s", strerror(errno));
    if (many == 0 && !draining) fail("no server has said anything for %d s", SILENCE_MS / 1000);
    for (int at = 0; at < many; at++) ready(events[at].data.ptr, events[at].events);
  }
}

int main(int count, char **given) {
  if (count != 7 && count != 9)
    fail("smtp-load PORT tls|clear COUNT CONNECTIONS kept|single FROM [USERNAME PASSWORD]");
  signal(SIGPIPE, SIG_IGN);
  load.port = atoi(given[1]);
  load.count = atol(given[3]);
  long connections = atol(given[4]);
  load.kept = strcmp(given[5], "kept") == 0;
  load.from = given[6];
  if (load.count < 1 || connections < 1 || connections > CONNECTIONS_MAX) fail("COUNT or CONNECTIONS is out of range");
  if (count == 9) {
    char plain[256] = "";
    int length = snprintf(plain + 1, sizeof plain - 1, "%s%c%s", given[7], '\0', given[8]);
    if (length < 0 || (size_t)length >= sizeof plain - 1) fail("USERNAME and PASSWORD are too long");
    EVP_EncodeBlock((unsigned char *)load.credentials, (unsigned char *)plain, length + 1);
    load.login = true;
  }
  if (strcmp(given[2], "tls") == 0) {
    load.tls = SSL_CTX_new(TLS_client_method());
    // The server is ours, on loopback. One group: a second handshake over another is not what is measured.
    if (load.tls == NULL || SSL_CTX_set1_groups_list(load.tls, "X25519") != 1) fail("TLS: no context");
    SSL_CTX_set_verify(load.tls, SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_session_cache_mode(load.tls, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(load.tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  }
  for (int line = 0; line < 20; line++) strcat(text, "The quick brown fox jumps over the lazy dog.\r\n");
  load.epoll = epoll_create1(EPOLL_CLOEXEC);
  if (load.epoll < 0) fail("epoll: %s", strerror(errno));
  double began = now();
  for (long at = 0; at < connections && at < load.count; at++) connect_one();
  turn(false, 0);
  printf("RESULT %.3f\n", load.count / (now() - began));
  fflush(stdout);
  turn(true, now() + DRAIN_MS / 1000.0);
  return 0;
}
