#!/bin/sh
# The Debian packages that the bench compares us with and loads us with. Installs the missing ones, as root with apt; nothing of them
# starts, and `npm start` never comes here. Where it cannot install, it says what is missing and ends with 1: the bench then leaves out
# the rows that need it.
set -u

# package       program or file             why
wanted='
wrk             wrk                         the load of the REST rows
postfix         smtp-sink                   the receiver of the delivery rows, and a peer
opendkim        opendkim                    signs for Postfix
openssl         openssl                     the RSA limit
nginx-light     nginx                       the receiver of the webhook rows
gcc             gcc                         compiles the load of the SMTP rows (smtp-load.c)
libc6-dev       /usr/include/stdio.h        the same
libssl-dev      /usr/include/openssl/ssl.h  the same
'

missing=$(echo "$wanted" | while read -r package program _; do
  [ -z "$package" ] || [ -f "$program" ] || PATH=$PATH:/usr/sbin command -v "$program" >/dev/null 2>&1 ||
    printf ' %s' "$package"
done)
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "bench: these Debian packages are missing, and only root can install them with apt:$missing" >&2
  exit 1
fi

# Asked before each start of a service that a package brings: no.
policy=/usr/sbin/policy-rc.d
made=
log=$(mktemp) || exit 1
cleanup() {
  [ -z "$made" ] || rm -f "$policy"
  rm -f "$log"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [ ! -e "$policy" ]; then
  made=yes
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
fi

echo "bench: installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
# The package lists may be absent or old: fetch them when the first try fails.
# shellcheck disable=SC2086
install() { timeout 300 apt-get install -y -q --no-install-recommends $missing; }
if ! install </dev/null >"$log" 2>&1 && ! { timeout 120 apt-get update -q && install; } </dev/null >>"$log" 2>&1; then
  tail -n 5 "$log" >&2
  echo "bench: apt could not install$missing" >&2
  exit 1
fi
