-- Requests of POST /api/v1/send for wrk: bodies of about 1 KB, every recipient another one, the senders in turn.
-- Arguments: `key,mailboxId` of each sender. The requests are put together by hand, and answers are not looked at one by one,
-- so that wrk takes as little as possible of the processors that it shares with what it measures.
local text = string.rep('The quick brown fox jumps over the lazy dog. ', 20)
local threads, count, run = 0, 0, 0
local heads, fronts = {}, {}

function setup(thread)
  threads = threads + 1
  thread:set('number', threads)
end

function init(args)
  run = os.time() % 1000000
  for i = 1, #args do
    local key, mailbox = args[i]:match('^(.-),(.+)$')
    heads[i] = 'POST /api/v1/send HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAuthorization: Bearer '
      .. key .. '\r\nContent-Length: '
    fronts[i] = '{"mailboxId":"' .. mailbox .. '","recipient":"u'
  end
end

function request()
  count = count + 1
  local i = count % #heads + 1
  local body = fronts[i] .. number .. '-' .. run .. '-' .. count .. '@d' .. count % 20 .. '.example.com","subject":"Order '
    .. count .. '","bodyText":"' .. text .. '","metadata":{"order":"' .. count .. '"}}'
  return heads[i] .. #body .. '\r\n\r\n' .. body
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format('RESULT %d requests %d us p99 %d us errors %d\n', summary.requests, summary.duration,
    latency:percentile(99), errors.status + errors.timeout + errors.connect + errors.read + errors.write))
end
