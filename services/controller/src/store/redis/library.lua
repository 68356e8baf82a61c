#!lua name=holdfast_v1
-- The writes of Holdfast, and the reads that must see one moment. It compares and keeps; it decides nothing: bodies are
-- opaque, no JSON is read here, no rule about volumes or claims is known here.
--
-- A change of this file is a new version: the name above, `libraryVersion` in library.ts, and with it every function name,
-- so that controllers of two versions find each their own library while they run side by side.
--
-- Keys, all of one cell and so of one hash slot; the places of a record are not known to the caller and so not declared:
--   <p>meta              hash    clusterUid schema gen vettedRunId seq (number of the newest event) durability (see start-gate.ts)
--   <p>events            stream  0-<seq>: t type, m member, b body; seq has no gaps, so that a reader sees what was trimmed
--   <p>expiry            zset    when records with a time to live end → member
--   <p>r:<member>        hash    a record; member = <kind's letter>:<key>
--        r revision   j body   m places   e end of life, ms   o the last commits that began with this record
--   <p>i:<index>:<value> zset    by name: <key>\1<kind's letter>
--   <p>q:<queue>         zset    time in ms → member
-- Places: "L\n<queues>\n<index:value ...>", each list parted by tabs; "D" once the record is removed. What is removed keeps
-- its revision and its commits for a day, so that an old revision never fits again and a lost answer can still be had.
--
-- L1 Nothing is written before everything is compared: what can be refused is refused first.
-- L2 A commit that is found in `o` answers as it did the first time and writes nothing.
-- L3 A revision counts up by one with each write of its key, over removals too.
-- L4 A record and its places change together; a record past its end is absent everywhere, and its places go with the next commits.

local TOMBSTONE_MS = 86400000
local COMMITS_KEPT = 8
local SWEPT_PER_COMMIT = 8

local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function parts(text)
  return string.gmatch(text, '[^\t]+')
end

-- The queues and indices of a record; nothing for what is removed or never was.
local function places_of(m)
  if not m then return '', '' end
  local queues, indices = string.match(m, '^L\n([^\n]*)\n(.*)$')
  return queues or '', indices or ''
end

local function index_member(member)
  return string.sub(member, 3) .. '\1' .. string.sub(member, 1, 1)
end

local function run_id()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
end

local function leave_places(prefix, member, m, kept_queues, kept_indices)
  local queues, indices = places_of(m)
  for queue in parts(queues) do
    if not kept_queues[queue] then redis.call('ZREM', prefix .. 'q:' .. queue, member) end
  end
  for index in parts(indices) do
    if not kept_indices[index] then redis.call('ZREM', prefix .. 'i:' .. index, index_member(member)) end
  end
end

local function bury(key, rev)
  redis.call('HDEL', key, 'j', 'e')
  redis.call('HSET', key, 'r', rev, 'm', 'D')
  redis.call('PEXPIRE', key, TOMBSTONE_MS)
end

-- L4: a bounded share of what has ended, with every commit.
local function sweep(prefix, expiry, now)
  local ended = redis.call('ZRANGE', expiry, '-inf', now, 'BYSCORE', 'LIMIT', 0, SWEPT_PER_COMMIT)
  for _, member in ipairs(ended) do
    local key = prefix .. 'r:' .. member
    local found = redis.call('HMGET', key, 'r', 'm', 'e')
    if found[3] and tonumber(found[3]) <= now then
      leave_places(prefix, member, found[2], {}, {})
      bury(key, found[1])
    end
    redis.call('ZREM', expiry, member)
  end
end

local function write_record(prefix, expiry, now, write)
  local key, member, found = write.key, write.member, write.found
  if write.places == '' then
    leave_places(prefix, member, found.m, {}, {})
    bury(key, write.rev)
    if found.e then redis.call('ZREM', expiry, member) end
    return
  end
  local queues, indices = places_of(write.places)
  local new_queues, new_indices, old_indices = {}, {}, {}
  local times = string.gmatch(write.times, '[^\t]+')
  for queue in parts(queues) do
    new_queues[queue] = true
    redis.call('ZADD', prefix .. 'q:' .. queue, times(), member)
  end
  local _, before = places_of(found.m)
  for index in parts(before) do old_indices[index] = true end
  for index in parts(indices) do
    new_indices[index] = true
    if not old_indices[index] then redis.call('ZADD', prefix .. 'i:' .. index, 0, index_member(member)) end
  end
  leave_places(prefix, member, found.m, new_queues, new_indices)
  if found.m == 'D' then redis.call('PERSIST', key) end
  if write.ttl ~= '' then
    local ends = now + tonumber(write.ttl)
    redis.call('HSET', key, 'r', write.rev, 'j', write.body, 'm', write.places, 'e', ends)
    redis.call('ZADD', expiry, ends, member)
  else
    redis.call('HSET', key, 'r', write.rev, 'j', write.body, 'm', write.places)
    if found.e then
      redis.call('HDEL', key, 'e')
      redis.call('ZREM', expiry, member)
    end
  end
end

local function remember(key, commits, op, seq, revs)
  commits = commits .. op .. ',' .. seq .. ',' .. revs .. ';'
  local _, count = string.gsub(commits, ';', ';')
  for _ = COMMITS_KEPT + 1, count do
    commits = string.sub(commits, string.find(commits, ';', 1, true) + 1)
  end
  redis.call('HSET', key, 'o', commits)
end

-- commit: every write and event, or none.
-- KEYS 1 meta, 2 events, 3 expiry, 4… one record key per write
-- ARGV 1 prefix, 2 id of the commit, 3 clusterUid, 4 run_id that must be the vetted one ('' = need not be), 5 lowest generation,
--      6 events kept, then 6 a write: member, expected revision, places ('' = remove), body, time to live in ms or '', due times
--      parted by tabs in the order of the queues; then 3 an event: type, member, body
-- returns {'ok', seq, 'rev,rev,…'} | {'conflict', nth write, live revision, revision, …} | {'unvetted', run_id, vettedRunId, gen}
--       | {'foreign', clusterUid}
local function commit(keys, args)
  local meta, events, expiry = keys[1], keys[2], keys[3]
  local prefix, op = args[1], args[2]
  local head = redis.call('HMGET', meta, 'clusterUid', 'seq', 'vettedRunId', 'gen')
  if head[1] ~= args[3] then return { 'foreign', head[1] or '' } end

  local now = now_ms()
  local writes, conflicts, commits = {}, { 'conflict' }, ''
  for nth = 1, #keys - 3 do
    local at = 6 + (nth - 1) * 6
    local key = keys[3 + nth]
    local stored = redis.call('HMGET', key, 'r', 'm', 'e', 'o')
    if nth == 1 then
      commits = stored[4] or ''
      local from = string.find(commits, op .. ',', 1, true)
      if from then
        local seq, revs = string.match(commits, '^([^,]*),([^;]*);', from + #op + 1)
        return { 'ok', seq, revs } -- L2
      end
    end
    local rev = tonumber(stored[1] or '0')
    local live = 0
    if stored[2] and stored[2] ~= 'D' and (not stored[3] or tonumber(stored[3]) > now) then live = rev end
    if live ~= tonumber(args[at + 2]) then
      conflicts[#conflicts + 1] = nth
      conflicts[#conflicts + 1] = live
      conflicts[#conflicts + 1] = rev
    end
    writes[nth] = {
      key = key, found = { m = stored[2], e = stored[3] }, rev = rev + 1, -- L3
      member = args[at + 1], places = args[at + 3], body = args[at + 4], ttl = args[at + 5], times = args[at + 6],
    }
  end
  if args[4] ~= '' then
    local run = run_id()
    if run ~= args[4] or head[3] ~= run or tonumber(head[4]) < tonumber(args[5]) then
      return { 'unvetted', run, head[3], head[4] }
    end
  end
  if #conflicts > 1 then return conflicts end

  -- L1: from here on nothing is refused. Events first: the one command that could find the keys at odds with each other.
  local seq = tonumber(head[2])
  local first_event = 7 + #writes * 6
  for at = first_event, #args, 3 do
    seq = seq + 1
    local id = string.format('0-%.0f', seq)
    redis.call('XADD', events, 'MAXLEN', '~', args[6], id, 't', args[at], 'm', args[at + 1], 'b', args[at + 2])
  end
  local text = string.format('%.0f', seq)
  if first_event <= #args then redis.call('HSET', meta, 'seq', text) end
  local revs = {}
  for nth, write in ipairs(writes) do
    write_record(prefix, expiry, now, write)
    revs[nth] = string.format('%.0f', write.rev)
  end
  local answer = table.concat(revs, ',')
  remember(keys[4], commits, op, text, answer)
  sweep(prefix, expiry, now)
  return { 'ok', text, answer }
end

-- read: the records that are there now.
-- KEYS record keys   ARGV none   returns revision and body by turns, nulls for what is absent
local function read(keys)
  local now = now_ms()
  local answer = {}
  for nth, key in ipairs(keys) do
    local found = redis.call('HMGET', key, 'r', 'j', 'e')
    local live = found[2] and (not found[3] or tonumber(found[3]) > now)
    answer[nth * 2 - 1] = live and found[1]
    answer[nth * 2] = live and found[2]
  end
  return answer
end

-- list: a page of an index, in the order of the keys, with the records as they are in the same moment.
-- KEYS 1 index   ARGV 1 prefix, 2 the key after which to go on or '', 3 limit
-- returns {key to go on after or '', member, revision, body, …}; what ended but still has its place is left out
local function list(keys, args)
  local from = '-'
  if args[2] ~= '' then from = '(' .. args[2] .. '\1\255' end
  local found = redis.call('ZRANGE', keys[1], from, '+', 'BYLEX', 'LIMIT', 0, args[3])
  local now = now_ms()
  local answer = { '' }
  for _, entry in ipairs(found) do
    local member = string.sub(entry, -1) .. ':' .. string.sub(entry, 1, -3)
    local record = redis.call('HMGET', args[1] .. 'r:' .. member, 'r', 'j', 'e')
    if record[2] and (not record[3] or tonumber(record[3]) > now) then
      answer[#answer + 1] = member
      answer[#answer + 1] = record[1]
      answer[#answer + 1] = record[2]
    end
  end
  if #found == tonumber(args[3]) then answer[1] = string.sub(found[#found], 1, -3) end
  return answer
end

-- identity: which process this is, and whose data it holds.
-- KEYS 1 meta   ARGV none   returns {digest of this library, run_id, clusterUid, schema, gen, vettedRunId, durability}
local function identity(keys)
  local meta = redis.call('HMGET', keys[1], 'clusterUid', 'schema', 'gen', 'vettedRunId', 'durability')
  return { '@digest@', run_id(), meta[1] or '', meta[2] or '', meta[3] or '', meta[4] or '', meta[5] or '' }
end

-- init: gives a store without an identity one; the gate stays shut until it is vetted.
-- KEYS 1 meta, 2 events   ARGV 1 clusterUid, 2 schema   returns the clusterUid that it has now
local function init(keys, args)
  local uid = redis.call('HGET', keys[1], 'clusterUid')
  if uid then return uid end
  local newest = redis.call('XREVRANGE', keys[2], '+', '-', 'COUNT', 1)
  local seq = newest[1] and string.match(newest[1][1], '^0%-(%d+)$') or '0'
  redis.call('HSET', keys[1], 'clusterUid', args[1], 'schema', args[2], 'gen', '1', 'seq', seq, 'vettedRunId', '')
  return args[1]
end

-- vet: this very process may be granted from, under this generation.
-- KEYS 1 meta   ARGV 1 clusterUid, 2 run_id, 3 generation
-- returns {'ok'} | {'foreign', clusterUid} | {'other', run_id} | {'older', gen}
local function vet(keys, args)
  local head = redis.call('HMGET', keys[1], 'clusterUid', 'gen')
  if head[1] ~= args[1] then return { 'foreign', head[1] or '' } end
  local run = run_id()
  if run ~= args[2] then return { 'other', run } end
  if tonumber(head[2]) > tonumber(args[3]) then return { 'older', head[2] } end
  redis.call('HSET', keys[1], 'vettedRunId', run, 'gen', args[3])
  return { 'ok' }
end

redis.register_function('holdfast_v1_commit', commit)
redis.register_function('holdfast_v1_init', init)
redis.register_function('holdfast_v1_vet', vet)
redis.register_function{ function_name = 'holdfast_v1_read', callback = read, flags = { 'no-writes' } }
redis.register_function{ function_name = 'holdfast_v1_list', callback = list, flags = { 'no-writes' } }
redis.register_function{ function_name = 'holdfast_v1_identity', callback = identity, flags = { 'no-writes' } }
