#!lua name=holdfast
-- Everything that writes goes through here, so that several records change in one step or not at all.
-- No rule of the product lives here: bodies are opaque, revisions are compared, nothing else is decided.
--
-- Keys, all with the cell's hash tag P = {hf:<cell>}:
--   P:r:<kind>:<key>    hash  rev, json (absent = removed), exp (ms), idx, due, ops (the last 8 operations with their results)
--   P:i:<name>:<value>  zset  members "<key>\0<kind>", score 0: listed in the order of keys
--   P:due:<queue>       zset  members "<kind>\0<key>", score = time in ms
--   P:events            stream   t, k, i, b
--   P:meta              hash  clusterUid, schema, gen, vettedRunId, durability

local KEPT_OPERATIONS = 8
local TOMBSTONE_MS = 86400000

local function now_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

local function run_id()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
end

local function lines(text)
  local out = {}
  for line in string.gmatch(text or '', '[^\n]+') do out[#out + 1] = line end
  return out
end

-- The revision a caller may expect: 0 for what was removed or has expired.
local function visible_rev(state, now)
  if not state[1] or not state[2] then return 0 end
  if state[3] and tonumber(state[3]) <= now then return 0 end
  return tonumber(state[1])
end

-- hf_commit  KEYS: P:meta
-- ARGV: prefix, opId, vettedOnly (1|0), runId, maxEvents, writes, then per write: kind, key, expectedRev, body? (1|0), body, ttlMs,
--   indices, (name, value)*, queues, (queue, at)*; then events, then per event: type, kind, key, body
-- Returns {1, token, rev…}, or {0, kind, key, rev, …} with every conflict, or {-1, run_id} when the process is not the vetted one.
local function commit(keys, argv)
  local at = 0
  local function take() at = at + 1; return argv[at] end
  local prefix, op, vetted_only, expected_run, max_events, count = take(), take(), take(), take(), take(), tonumber(take())
  local now = now_ms()
  local writes = {}
  for w = 1, count do
    local one = { kind = take(), key = take(), rev = tonumber(take()), keep = take() == '1', body = take(), ttl = tonumber(take()), idx = {}, due = {} }
    for _ = 1, tonumber(take()) do one.idx[#one.idx + 1] = { take(), take() } end
    for _ = 1, tonumber(take()) do one.due[#one.due + 1] = { take(), take() } end
    one.at = prefix .. ':r:' .. one.kind .. ':' .. one.key
    one.state = redis.call('HMGET', one.at, 'rev', 'json', 'exp', 'idx', 'due', 'ops')
    writes[w] = one
  end
  -- A repeat is answered from the first record's memory, before anything else is looked at.
  for _, line in ipairs(lines(writes[1].state[6])) do
    local known, result = string.match(line, '^(%S+) (.*)$')
    if known == op then
      local answer = { 1 }
      for word in string.gmatch(result, '%S+') do answer[#answer + 1] = word end
      return answer
    end
  end
  if vetted_only == '1' then
    local id = run_id()
    if id ~= expected_run or redis.call('HGET', keys[1], 'vettedRunId') ~= id then return { -1, id } end
  end
  local conflicts = { 0 }
  for _, one in ipairs(writes) do
    local rev = visible_rev(one.state, now)
    if rev ~= one.rev then
      conflicts[#conflicts + 1] = one.kind
      conflicts[#conflicts + 1] = one.key
      conflicts[#conflicts + 1] = tostring(rev)
    end
  end
  if #conflicts > 1 then return conflicts end

  local events = {}
  for _ = 1, tonumber(take()) do events[#events + 1] = { take(), take(), take(), take() } end
  local token = false
  for _, e in ipairs(events) do
    token = redis.call('XADD', prefix .. ':events', 'MAXLEN', '~', max_events, '*', 't', e[1], 'k', e[2], 'i', e[3], 'b', e[4])
  end
  if not token then
    local last = redis.call('XREVRANGE', prefix .. ':events', '+', '-', 'COUNT', 1)
    token = last[1] and last[1][1] or '0-0'
  end

  local revs = {}
  for _, one in ipairs(writes) do
    local rev = (tonumber(one.state[1] or '0')) + 1
    revs[#revs + 1] = tostring(rev)
    local member = one.key .. '\0' .. one.kind
    local waiting = one.kind .. '\0' .. one.key
    -- Entries are kept beside the record as "name\tvalue" and "queue" lines; only what changed is touched.
    local stays = {}
    if one.keep then for _, e in ipairs(one.idx) do stays[e[1] .. '\t' .. e[2]] = true end end
    local had = {}
    for _, line in ipairs(lines(one.state[4])) do
      had[line] = true
      if not stays[line] then
        local name, value = string.match(line, '^([^\t]*)\t(.*)$')
        redis.call('ZREM', prefix .. ':i:' .. name .. ':' .. value, member)
      end
    end
    local queued = {}
    if one.keep then for _, d in ipairs(one.due) do queued[d[1]] = d[2] end end
    for _, queue in ipairs(lines(one.state[5])) do
      if not queued[queue] then redis.call('ZREM', prefix .. ':due:' .. queue, waiting) end
    end
    local idx, due = {}, {}
    if one.keep then
      for _, e in ipairs(one.idx) do
        local line = e[1] .. '\t' .. e[2]
        idx[#idx + 1] = line
        if not had[line] then redis.call('ZADD', prefix .. ':i:' .. e[1] .. ':' .. e[2], 0, member) end
      end
      for queue, time in pairs(queued) do
        due[#due + 1] = queue
        redis.call('ZADD', prefix .. ':due:' .. queue, time, waiting)
      end
    end
    local ops = lines(one.state[6])
    while #ops >= KEPT_OPERATIONS do table.remove(ops, 1) end
    one.ops, one.newrev, one.idxtext, one.duetext = ops, rev, table.concat(idx, '\n'), table.concat(due, '\n')
  end
  local result = op .. ' ' .. token .. ' ' .. table.concat(revs, ' ')
  for _, one in ipairs(writes) do
    one.ops[#one.ops + 1] = result
    local ops = table.concat(one.ops, '\n')
    if one.keep then
      redis.call('HSET', one.at, 'rev', one.newrev, 'json', one.body, 'idx', one.idxtext, 'due', one.duetext, 'ops', ops)
      if one.ttl > 0 then
        redis.call('HSET', one.at, 'exp', string.format('%d', now + one.ttl))
        redis.call('PEXPIRE', one.at, one.ttl + TOMBSTONE_MS)
      else
        redis.call('HDEL', one.at, 'exp')
        redis.call('PERSIST', one.at)
      end
    else
      redis.call('HDEL', one.at, 'json', 'exp', 'idx', 'due')
      redis.call('HSET', one.at, 'rev', one.newrev, 'ops', ops)
      redis.call('PEXPIRE', one.at, TOMBSTONE_MS)
    end
  end
  local answer = { 1, token }
  for _, rev in ipairs(revs) do answer[#answer + 1] = rev end
  return answer
end

-- hf_list  KEYS: the index  ARGV: prefix, after ("" = from the start), limit
-- Returns {last key seen or "", kind, key, rev, json, …}; entries of expired records are dropped on the way.
local function list(keys, argv)
  local prefix, after, limit = argv[1], argv[2], tonumber(argv[3])
  local from = after == '' and '-' or '(' .. after .. '\1'
  local now = now_ms()
  local members = redis.call('ZRANGE', keys[1], from, '+', 'BYLEX', 'LIMIT', 0, limit)
  local answer = { '' }
  for _, member in ipairs(members) do
    local key, kind = string.match(member, '^(.-)%z(.*)$')
    local state = redis.call('HMGET', prefix .. ':r:' .. kind .. ':' .. key, 'rev', 'json', 'exp')
    if visible_rev(state, now) > 0 then
      answer[#answer + 1] = kind
      answer[#answer + 1] = key
      answer[#answer + 1] = state[1]
      answer[#answer + 1] = state[2]
    else
      redis.call('ZREM', keys[1], member)
    end
    answer[1] = key
  end
  if #members < limit then answer[1] = '' end
  return answer
end

-- hf_vet  KEYS: P:meta  ARGV: run_id, gen. Returns 1, or 0 when the process is another one by now.
local function vet(keys, argv)
  if run_id() ~= argv[1] then return 0 end
  redis.call('HSET', keys[1], 'vettedRunId', argv[1], 'gen', argv[2])
  return 1
end

-- hf_identity  KEYS: P:meta. Returns {run_id, clusterUid, schema, gen, vettedRunId}.
local function identity(keys)
  local m = redis.call('HMGET', keys[1], 'clusterUid', 'schema', 'gen', 'vettedRunId')
  return { run_id(), m[1] or '', m[2] or '0', m[3] or '0', m[4] or '' }
end

redis.register_function('hf_commit', commit)
redis.register_function('hf_list', list)
redis.register_function('hf_vet', vet)
redis.register_function('hf_identity', identity)
