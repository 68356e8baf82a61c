#!lua name=holdfast_v8
-- The writes of Holdfast, and the reads that must see one moment. It compares and keeps; it decides nothing: bodies are
-- opaque, no JSON is read here, no rule about volumes or claims is known here.
--
-- A change of this file is a new version: the name above, `libraryVersion` in library.ts, and with it every function name,
-- so that controllers of two versions find each their own library while they run side by side.
--
-- Keys, all of one cell and so of one hash slot; the places of a record are not known to the caller and so not declared:
--   <p>meta              hash    clusterUid schema (the format of the records, see adr/0015) gen vettingUid begunFor (L9) vettedRunId vettedReplId (L8) lastVetted (uid of the newest vetting that ended) turnedFor turnVetted lastBefore firstAfter (L10) seq (number of the newest event) commits (number of the newest commit)
--                        durability (see start-gate.ts)
--   <p>events            stream  0-<seq>: t type, m member, b body; seq has no gaps, so that a reader sees what was trimmed
--   <p>expiry            zset    when records with a time to live end → member
--   <p>o:<commit>        string  "<seq> <commits> <gen> <rev,rev,...>" what a commit was answered, for ten minutes
--   <p>r:<member>        string  a record; member = <kind's letter>:<key>. Four parts, each ended by a newline but the last:
--        "<revision> <end of its life in ms, 0 = none> <1, or 0 = removed>", its queues, its index:value entries, its body;
--        queues and entries parted by tabs. What is removed keeps its revision for a day, so that an old one never fits again.
--   <p>i:<index>:<value> zset    by name: <key>\1<kind's letter>, see "Indices" below
--   <p>q:<queue>         zset    time in ms → member
-- One string a record and short zsets are what Redis keeps in the least memory: bench/store.ts counts the bytes.
--
-- L1 Nothing is written before everything is compared: what can be refused is refused first.
-- L2 A commit that was done answers as it did the first time and writes nothing. Its answer is looked for where something would be
--    refused, and where nothing is written over a revision: one that is still there was not written over by this commit. L3
-- L3 A revision counts up by one with each write of its key, over removals too.
-- L4 A record and its places change together; a record past its end is absent everywhere, and its places go with one of the
--    next commits: a few with each, looked for with each while something ends soon, with every sixteenth otherwise.
-- L5 What cannot be read is told as damaged, by the number of its key, and is neither absent nor written over. meta too: nothing is
--    committed while its numbers are none.
-- L6 Nothing is committed by a caller that cannot read the store's format, which no commit lowers.
-- L7 Each commit that writes has a higher number than the one before. A store begins with a number of its clock, and a vetting raises the
--    number to the clock: a store that lost its newest commits gives their numbers to no others. The clock is read for nothing else.
-- L8 Nothing is committed for a caller that saw a higher number than this store has: it lost commits, whatever process holds it. That alone is
--    written down: it is not vetted any more, for nobody. And what is granted is granted in the replication history that was vetted: a
--    process may take over the data of another one and stay the same process.
-- L9 A vetting begins with a generation that no vetting had before it, for this process in this history of its data, and under a name of
--    its own: orders of an older generation, or of another vetting that came to the same number, are refused by those who promised it.
--    Several controllers that vet together share what one of them has begun; what is granted by one that has not seen it is refused.
-- L10 The first commit of a process in one history of its data, and a vetting that begins after another one had ended, are a turn: the newest number before it is noted,
--    and the first one after it. What a controller saw between the two is lost. A turn lasts until a vetting has ended; another one that
--    comes before keeps what the first one noted.
--
-- Between two commits the processor's caches hold something else: what one costs is the number of commands that it gives, far more
-- than what they do, and the length of the texts that it makes, as Lua hashes each whole.

local TOMBSTONE_MS = 86400000
-- Far longer than any caller looks for a lost answer. After it a repeat finds its revisions gone on: a conflict, never a second effect.
local ANSWER_MS = 600000
local SWEPT_PER_COMMIT = 8
-- While nothing ends so soon, only one of so many commits looks for what has ended.
local SOON_MS = 100
local LOOKED_EVERY = 16
-- Of the stream whole blocks are cut off, of about so many events.
local TRIMMED_EVERY = 16
-- L7: more numbers than a store gives in a millisecond.
local NUMBERS_PER_MS = 1024
-- Redis keeps a zset of up to 128 short members in a fifth of the memory.
local LEAF = 120

-- One moment for a whole call, asked for only if something is compared with it.
local function clock()
  local now
  return function()
    if not now then
      local time = redis.call('TIME')
      now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    end
    return now
  end
end

-- Kept, as it stays for the life of the process, and this Lua state lives no longer: a restart loads the library anew.
local own_run_id
local function run_id()
  own_run_id = own_run_id or string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  return own_run_id
end

-- Asked each time, as it changes within the life of a process: with each promotion, and when its data is replaced by that of a master.
local function repl_id()
  return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
end

-- What names a process in one history of its data.
local function history(repl)
  return run_id() .. ' ' .. (repl or repl_id())
end

-- Whole, and within what every reader can count with.
local function safe(text)
  return text and string.match(text, '^%d+$') and #text <= 16 and tonumber(text) <= 9007199254740991
end

-- L7: a number above every one that was given before.
local function newest_number(known, now, seen)
  return string.format('%.0f', math.max(tonumber(known or '0'), tonumber(seen or '0'), now() * NUMBERS_PER_MS))
end

-- L10: `head` is turnedFor, turnVetted and lastBefore. Only a number of the clock is above those of every process before, lost ones too.
local function note_turn(meta, head, last, first, now)
  if head[1] and head[2] ~= '1' then last = head[3] end
  if tonumber(first) > now() * NUMBERS_PER_MS then first = '' end
  redis.call('HSET', meta, 'turnedFor', history(), 'turnVetted', '', 'lastBefore', last or '', 'firstAfter', first)
end

local function parts(text)
  return string.gmatch(text, '[^\t]+')
end

-- Records ------------------------------------------------------------------------------------------------------------------

local NONE = { rev = '0', ends = '0', there = false, queues = '', indices = '', text = '', body = 1 }

-- `body` is where it begins: most are not looked at.
local function read_record(key)
  local text = redis.pcall('GET', key)
  if not text then return NONE end
  if type(text) ~= 'string' then return { damage = 'it is no string in Redis' } end
  local rev, ends, there, queues, indices, body = string.match(text, '^(%d+) (%d+) ([01])\n([^\n]*)\n([^\n]*)\n()')
  if not rev then return { damage = 'the lines before its body are missing or changed' } end
  if not safe(rev) or rev == '0' then return { damage = 'its revision is ' .. rev } end
  return { rev = rev, ends = ends, there = there == '1', queues = queues, indices = indices, text = text, body = body }
end

local function ended(record, now)
  return record.ends ~= '0' and tonumber(record.ends) <= now()
end

local function live(record, now)
  return record.there and not ended(record, now)
end

local function body_of(record)
  return string.sub(record.text, record.body)
end

local function bury(key, rev)
  redis.call('SET', key, rev .. ' 0 0\n\n\n', 'PX', TOMBSTONE_MS)
end

local function next_rev(rev)
  return string.format('%.0f', tonumber(rev) + 1) -- L3
end

-- Indices ------------------------------------------------------------------------------------------------------------------
-- An index is a row of leaves of at most LEAF members. The first is the key of the index itself; the others are named after the
-- lowest member that they may hold, and those names are the directory, a zset of its own, which is there once there are two leaves.

local function directory_of(index)
  return index .. '\tleaves'
end

local function leaf_key(index, lowest)
  return lowest and index .. '\tleaf ' .. lowest or index
end

-- Most indices are one leaf: to know that is cheaper than to look for another one.
local function one_leaf(index)
  return redis.call('ZCARD', directory_of(index)) == 0
end

-- The lowest member of the leaf for this one; nil = the first leaf.
local function leaf_for(index, member)
  if one_leaf(index) then return nil end
  return redis.call('ZRANGE', directory_of(index), '[' .. member, '-', 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
end

local function index_member(member)
  return string.sub(member, 3) .. '\1' .. string.sub(member, 1, 1)
end

local function enter_index(index, member)
  local leaf = leaf_key(index, leaf_for(index, member))
  redis.call('ZADD', leaf, 0, member)
  if redis.call('ZCARD', leaf) <= LEAF then return end
  -- In halves; but keys that come in order, as dates and counters do, leave full leaves behind.
  local from = redis.call('ZRANGE', leaf, -1, -1)[1] == member and LEAF or LEAF / 2
  local upper = redis.call('ZRANGE', leaf, from, -1)
  local scored = {}
  for _, moved in ipairs(upper) do
    scored[#scored + 1] = 0
    scored[#scored + 1] = moved
  end
  redis.call('ZADD', leaf_key(index, upper[1]), unpack(scored))
  redis.call('ZREM', leaf, unpack(upper))
  redis.call('ZADD', directory_of(index), 0, upper[1])
end

local function leave_index(index, member)
  -- Most indices are one leaf; the first one stays without its members, so that there is no directory to mend.
  if redis.call('ZREM', index, member) == 1 then return end
  local lowest = leaf_for(index, member)
  if not lowest then return end
  local leaf = leaf_key(index, lowest)
  redis.call('ZREM', leaf, member)
  if redis.call('ZCARD', leaf) == 0 then redis.call('ZREM', directory_of(index), lowest) end
end

-- Up to `limit` members behind `after` ('' = from the start), over as many leaves as it takes.
local function page_of(index, after, limit)
  local found = {}
  local from = after == '' and '-' or '(' .. after .. '\1\255'
  local lowest = after ~= '' and leaf_for(index, after .. '\1\255') or nil
  while true do
    local some = redis.call('ZRANGE', leaf_key(index, lowest), from, '+', 'BYLEX', 'LIMIT', 0, limit - #found)
    for _, member in ipairs(some) do found[#found + 1] = member end
    if #found >= limit or (not lowest and one_leaf(index)) then return found end
    lowest = redis.call('ZRANGE', directory_of(index), lowest and '(' .. lowest or '-', '+', 'BYLEX', 'LIMIT', 0, 1)[1]
    if not lowest then return found end
  end
end

-- Whether a record that is not among these carries the entry. What has ended and is not swept yet counts: refused once too often,
-- never too seldom.
local function crowded(index, writes)
  local written = {}
  for _, write in ipairs(writes) do written[index_member(write.member)] = true end
  for _, member in ipairs(page_of(index, '', #writes + 1)) do
    if not written[member] then return true end
  end
  return false
end

-- How many records carry the entry; as above, what has ended and is not swept yet counts.
local function carried(index)
  local found = redis.call('ZCARD', index)
  for _, lowest in ipairs(redis.call('ZRANGE', directory_of(index), 0, -1)) do
    found = found + redis.call('ZCARD', leaf_key(index, lowest))
  end
  return found
end

local function carries(indices, entry)
  return string.find('\t' .. indices .. '\t', '\t' .. entry .. '\t', 1, true) ~= nil
end

-- How many records more carry the entry after these writes.
local function added_by(writes, entry)
  local added = 0
  for _, write in ipairs(writes) do
    if write.text ~= '' and carries(write.indices, entry) then added = added + 1 end
    if carries(write.record.indices, entry) then added = added - 1 end
  end
  return added
end

-- {'full', …}: the bounds, by their place in the list, whose entries together these writes would make more than there may be.
local function full_of(prefix, bounds, writes)
  local full, nth = { 'full' }, 0
  local words = parts(bounds)
  for most in words do
    local entries, added = {}, 0
    nth = nth + 1
    for place = 1, tonumber(words()) do
      entries[place] = words()
      added = added + added_by(writes, entries[place])
    end
    if added > 0 then
      local found = added
      for _, entry in ipairs(entries) do found = found + carried(prefix .. 'i:' .. entry) end
      if found > tonumber(most) then full[#full + 1] = nth end
    end
  end
  return full
end

-- Places -------------------------------------------------------------------------------------------------------------------

local function leave_places(prefix, member, record)
  for queue in parts(record.queues) do redis.call('ZREM', prefix .. 'q:' .. queue, member) end
  for index in parts(record.indices) do leave_index(prefix .. 'i:' .. index, index_member(member)) end
end

local function take_queues(prefix, member, before, write)
  local kept, times = '\t' .. write.queues .. '\t', parts(write.times)
  for queue in parts(write.queues) do redis.call('ZADD', prefix .. 'q:' .. queue, times(), member) end
  if before == write.queues then return end
  for queue in parts(before) do
    if not string.find(kept, '\t' .. queue .. '\t', 1, true) then redis.call('ZREM', prefix .. 'q:' .. queue, member) end
  end
end

-- What follows one list in another that begins with it, or nil.
local function rest_of(longer, shorter)
  if shorter == '' then return longer end
  return string.sub(longer, 1, #shorter + 1) == shorter .. '\t' and string.sub(longer, #shorter + 2) or nil
end

local function take_indices(prefix, member, before, after)
  if before == after then return end
  local entered, left = rest_of(after, before), rest_of(before, after)
  local was, is, place = '\t' .. before .. '\t', '\t' .. after .. '\t', index_member(member)
  for index in parts(left and '' or entered or after) do
    if entered or not string.find(was, '\t' .. index .. '\t', 1, true) then enter_index(prefix .. 'i:' .. index, place) end
  end
  for index in parts(entered and '' or left or before) do
    if left or not string.find(is, '\t' .. index .. '\t', 1, true) then leave_index(prefix .. 'i:' .. index, place) end
  end
end

-- By the key of `expiry`: how many commits need not look at it. Forgotten with this Lua state, and then looked at.
local rests = {}

local function ends_at(expiry, member, ends, now)
  redis.call('ZADD', expiry, string.format('%.0f', ends), member)
  if ends <= now() + SOON_MS then rests[expiry] = 0 end
end

-- L4: a bounded share of what has ended.
local function sweep(prefix, expiry, now)
  local rest = rests[expiry] or 0
  if rest > 0 then
    rests[expiry] = rest - 1
    return
  end
  local found = redis.call('ZRANGE', expiry, 0, SWEPT_PER_COMMIT, 'WITHSCORES')
  for at = 1, #found, 2 do
    local member, ends = found[at], tonumber(found[at + 1])
    if ends > now() + SOON_MS then break end
    if ends > now() or at > 2 * SWEPT_PER_COMMIT then return end
    local key = prefix .. 'r:' .. member
    local record = read_record(key)
    -- What is damaged stays, so that it is told of.
    if not record.damage and ended(record, now) then
      leave_places(prefix, member, record)
      bury(key, record.rev)
    end
    redis.call('ZREM', expiry, member)
  end
  rests[expiry] = LOOKED_EVERY - 1
end

-- returns the revision that it has now
local function write_record(prefix, expiry, now, write)
  local member, record = write.member, write.record
  if write.text == '' then
    local rev = next_rev(record.rev)
    leave_places(prefix, member, record)
    bury(write.key, rev)
    if record.ends ~= '0' then redis.call('ZREM', expiry, member) end
    return rev
  end
  take_queues(prefix, member, record.queues, write)
  take_indices(prefix, member, record.indices, write.indices)
  local rev, text, ends = write.rev, write.text, 0
  if write.ttl ~= '' or record.rev ~= write.expected then
    -- Its life is counted from now, or what was removed goes on counting: not what the caller could know.
    rev = next_rev(record.rev)
    if write.ttl ~= '' then ends = now() + tonumber(write.ttl) end
    text = string.format('%s %.0f 1\n', rev, ends) .. string.sub(text, write.from)
  end
  redis.call('SET', write.key, text)
  if ends > 0 then
    ends_at(expiry, member, ends, now)
  elseif record.ends ~= '0' then
    redis.call('ZREM', expiry, member)
  end
  return rev
end

-- Functions ----------------------------------------------------------------------------------------------------------------

-- L2: what a commit that was done before is answered, or nil.
local function done_before(answer)
  local known = redis.call('GET', answer)
  if not known then return nil end
  local seq, commits, gen, revs = string.match(known, '^(%d+) (%d+) (%d+) (.*)$')
  return { 'ok', seq, revs, commits, gen }
end

-- commit: every write and event, or none.
-- KEYS 1 meta, 2 events, 3 expiry, 4 the answer of this commit, 5… one record key per write, then per record that is only compared
-- ARGV 1 prefix, 2 clusterUid, 3 run_id that must be the vetted one ('' = need not be), 4 its generation, 5 events kept,
--      6 index:value entries, parted by tabs, that no other record may carry;
--      7 revisions, parted by tabs, of as many records that are only compared: theirs are the last KEYS;
--      8 bounds, parted by tabs: the most records that may carry the entries of one together, how many entries those are, and the
--      entries, index:value; compared when this adds one;
--      9 the newest format that the caller reads, 10 the format from now on or '', 11 the highest number that the caller saw;
--      then 4 a write: expected revision; the record as it is kept when its revision is the next and its life has no end, or '' =
--      remove; time to live in ms or ''; due times of its queues, parted by tabs; then 3 an event: type, member, body
-- returns {'ok', seq, 'rev,rev,…', number of this commit, generation} | {'conflict', nth record key, live revision, …}
--       | {'unvetted', run_id, vettedRunId, gen, '1' = of the vetted history} | {'behind', number of the newest commit}
--       | {'foreign', clusterUid} | {'crowded'} | {'full', nth bound of 8, …}
--       | {'damaged', nth record key, what is wrong, …} | {'meta', field, what it holds} | {'newer', format}
local function commit(keys, args)
  local meta, events, expiry, answer = keys[1], keys[2], keys[3], keys[4]
  local prefix = args[1]
  local head = redis.call('HMGET', meta, 'clusterUid', 'seq', 'vettedRunId', 'gen', 'schema', 'commits', 'vettedReplId', 'turnedFor')
  if head[1] ~= args[2] then return { 'foreign', head[1] or '' } end
  local now = clock()
  head[6] = head[6] or newest_number(nil, now)
  for nth, field in pairs({ [2] = 'seq', [4] = 'gen', [5] = 'schema', [6] = 'commits' }) do
    if not safe(head[nth]) then return { 'meta', field, head[nth] or '' } end
  end
  if tonumber(head[5]) > tonumber(args[9]) then return { 'newer', head[5] } end -- L6
  if tonumber(head[6]) < tonumber(args[11]) then -- L8
    local done = done_before(answer)
    if done then return done end
    redis.call('HSET', meta, 'vettedRunId', '', 'begunFor', '', 'turnedFor', '-')
    return { 'behind', head[6] }
  end
  local repl = repl_id()
  if args[3] ~= '' then
    local run, of_vetted_history = run_id(), head[7] == repl
    if run ~= args[3] or head[3] ~= run or tonumber(head[4]) ~= tonumber(args[4]) or not of_vetted_history then
      return done_before(answer) or { 'unvetted', run, head[3], head[4], of_vetted_history and '1' or '' }
    end
  end

  local writes, conflicts, damaged, compared, certainly_new = {}, { 'conflict' }, { 'damaged' }, {}, false
  local function compare(nth, rev)
    local record = read_record(keys[4 + nth])
    if record.damage then
      damaged[#damaged + 1] = nth
      damaged[#damaged + 1] = record.damage
      return record
    end
    local found = live(record, now) and record.rev or '0'
    if found ~= rev then
      conflicts[#conflicts + 1] = nth
      conflicts[#conflicts + 1] = tonumber(found)
    end
    return record
  end
  if args[7] ~= '' then
    for rev in parts(args[7]) do compared[#compared + 1] = rev end
  end
  local written = #keys - 4 - #compared
  for nth = 1, written do
    local at, key = 12 + (nth - 1) * 4, keys[4 + nth]
    local expected, text = args[at], args[at + 1]
    local record = compare(nth, expected)
    local rev, from, queues, indices = string.match(text, '^(%d+) 0 1\n()([^\n]*)\n([^\n]*)\n')
    assert(rev or text == '', 'what is to be kept is no record')
    writes[nth] = {
      key = key, member = string.sub(key, #prefix + 3), record = record, expected = expected, text = text, rev = rev,
      from = from, queues = queues, indices = indices, ttl = args[at + 2], times = args[at + 3],
    }
    if expected ~= '0' then certainly_new = true end
  end
  for nth, rev in ipairs(compared) do compare(written + nth, rev) end
  if #damaged > 1 then return damaged end
  if #conflicts > 1 then return done_before(answer) or conflicts end
  local known = not certainly_new and done_before(answer)
  if known then return known end
  if args[6] ~= '' then
    for entry in parts(args[6]) do
      if crowded(prefix .. 'i:' .. entry, writes) then return { 'crowded' } end
    end
  end
  if args[8] ~= '' then
    local full = full_of(prefix, args[8], writes)
    if #full > 1 then return full end
  end

  -- L1: from here on nothing is refused. Events first: the one command that could find the keys at odds with each other.
  local seq = tonumber(head[2])
  local text = head[2]
  local first_event = 12 + written * 4
  for at = first_event, #args, 3 do
    seq = seq + 1
    text = string.format('%.0f', seq)
    if seq % TRIMMED_EVERY == 0 then
      redis.call('XADD', events, 'MAXLEN', '~', args[5], '0-' .. text, 't', args[at], 'm', args[at + 1], 'b', args[at + 2])
    else
      redis.call('XADD', events, '0-' .. text, 't', args[at], 'm', args[at + 1], 'b', args[at + 2])
    end
  end
  local known = head[6]
  if head[8] ~= history(repl) then -- L10
    known = newest_number(head[6], now)
    note_turn(meta, redis.call('HMGET', meta, 'turnedFor', 'turnVetted', 'lastBefore'), head[6], known, now)
  end
  local number = string.format('%.0f', tonumber(known) + 1)
  redis.call('HSET', meta, 'seq', text, 'commits', number)
  if args[10] ~= '' and tonumber(args[10]) > tonumber(head[5]) then redis.call('HSET', meta, 'schema', args[10]) end -- L6
  local revs = {}
  for nth, write in ipairs(writes) do revs[nth] = write_record(prefix, expiry, now, write) end
  local list = table.concat(revs, ',')
  redis.call('SET', answer, table.concat({ text, number, head[4], list }, ' '), 'PX', ANSWER_MS)
  sweep(prefix, expiry, now)
  return { 'ok', text, list, number, head[4] }
end

-- read: the records that are there now.
-- KEYS record keys   ARGV none   returns revision and body by turns, nulls for what is absent, and what is wrong in place of a revision
local function read(keys)
  local now = clock()
  local answer = {}
  for nth, key in ipairs(keys) do
    local record = read_record(key)
    local there = not record.damage and live(record, now)
    answer[nth * 2 - 1] = record.damage or there and tonumber(record.rev)
    answer[nth * 2] = there and body_of(record)
  end
  return answer
end

-- placed: records with all their places, for a backup.
-- KEYS record keys   ARGV 1 prefix, then the member of each key
-- returns per record that is there: member, rest of its life in ms or 0 (or what is wrong with it), queues, their due times, index:value entries, body
local function placed(keys, args)
  local now = clock()
  local answer = {}
  for nth, key in ipairs(keys) do
    local record = read_record(key)
    if record.damage then
      for _, part in ipairs({ args[nth + 1], record.damage, '', '', '', '' }) do answer[#answer + 1] = part end
    elseif live(record, now) then
      local times = {}
      for queue in parts(record.queues) do
        times[#times + 1] = redis.call('ZSCORE', args[1] .. 'q:' .. queue, args[nth + 1]) or '0'
      end
      local rest = record.ends == '0' and '0' or string.format('%.0f', tonumber(record.ends) - now())
      for _, part in ipairs({ args[nth + 1], rest, record.queues, table.concat(times, '\t'), record.indices, body_of(record) }) do
        answer[#answer + 1] = part
      end
    end
  end
  return answer
end

-- list: a page of an index, in the order of the keys, with the records as they are in the same moment.
-- KEYS 1 index   ARGV 1 prefix, 2 the key after which to go on or '', 3 limit
-- returns {key to go on after or '', member, revision (or what is wrong), body, …}; what ended but still has its place is left out
local function list(keys, args)
  local limit = tonumber(args[3])
  local now = clock()
  local answer = { '' }
  local found = page_of(keys[1], args[2], limit)
  for _, entry in ipairs(found) do
    local member = string.sub(entry, -1) .. ':' .. string.sub(entry, 1, -3)
    local record = read_record(args[1] .. 'r:' .. member)
    if record.damage then
      answer[#answer + 1] = member
      answer[#answer + 1] = record.damage
      answer[#answer + 1] = ''
    elseif live(record, now) then
      answer[#answer + 1] = member
      answer[#answer + 1] = tonumber(record.rev)
      answer[#answer + 1] = body_of(record)
    end
  end
  if #found == limit then answer[1] = string.sub(found[#found], 1, -3) end
  return answer
end

-- count: how many records carry each entry.
-- KEYS indices   ARGV none   returns one number each
local function count(keys)
  local answer = {}
  for nth, key in ipairs(keys) do answer[nth] = carried(key) end
  return answer
end

-- identity: which process this is, and whose data it holds.
-- KEYS 1 meta   ARGV none
-- returns {digest of this library, run_id, clusterUid, schema, gen, vettedRunId or '' in another history than the vetted one, durability,
--          number of the newest commit or '', vettingUid, '1' = the generation was begun for this process in this history, lastVetted,
--          lastBefore and firstAfter of its turn, '' where that is not known}
local function identity(keys)
  local meta = redis.call('HMGET', keys[1], 'clusterUid', 'schema', 'gen', 'vettedRunId', 'durability', 'commits', 'vettedReplId', 'vettingUid', 'begunFor',
    'lastVetted', 'turnedFor', 'lastBefore', 'firstAfter')
  local vetted = meta[7] == repl_id() and meta[4] or ''
  local begun = meta[9] == history() and '1' or ''
  local known = meta[11] == history()
  return {
    '@digest@', run_id(), meta[1] or '', meta[2] or '', meta[3] or '', vetted, meta[5] or '', meta[6] or '', meta[8] or '', begun,
    meta[10] or '', known and meta[12] or '', known and meta[13] or '',
  }
end

-- init: gives a store without an identity one; the gate stays shut until it is vetted.
-- KEYS 1 meta, 2 events   ARGV 1 clusterUid, 2 schema, 3 generation   returns the clusterUid that it has now
local function init(keys, args)
  local uid = redis.call('HGET', keys[1], 'clusterUid')
  if uid then return uid end
  local newest = redis.call('XREVRANGE', keys[2], '+', '-', 'COUNT', 1)
  local seq = newest[1] and string.match(newest[1][1], '^0%-(%d+)$') or '0'
  redis.call('HSET', keys[1], 'clusterUid', args[1], 'schema', args[2], 'gen', args[3], 'seq', seq, 'vettedRunId', '')
  return args[1]
end

-- begin: this very process stands under a higher generation from now on, and grants nothing before that is vetted (L9).
-- KEYS 1 meta   ARGV 1 clusterUid, 2 run_id, 3 generation, 4 the highest number that the caller saw, as of vet, 5 uid of the vetting
-- returns {'ok'} | {'foreign', clusterUid} | {'other', run_id} | {'older', gen}
local function begin(keys, args)
  local head = redis.call('HMGET', keys[1], 'clusterUid', 'gen', 'commits', 'turnedFor', 'turnVetted', 'lastBefore')
  if head[1] ~= args[1] then return { 'foreign', head[1] or '' } end
  if head[3] and not safe(head[3]) then return { 'meta', 'commits', head[3] } end
  if not safe(head[2]) then return { 'meta', 'gen', head[2] or '' } end
  local run = run_id()
  if run ~= args[2] then return { 'other', run } end
  if tonumber(head[2]) >= tonumber(args[3]) then return { 'older', head[2] } end
  local now = clock()
  local commits = newest_number(head[3], now, args[4])
  if head[4] ~= history() or head[5] == '1' then note_turn(keys[1], { head[4], head[5], head[6] }, head[3], commits, now) end
  redis.call('HSET', keys[1], 'vettedRunId', '', 'gen', args[3], 'vettingUid', args[5], 'begunFor', history(), 'commits', commits)
  return { 'ok' }
end

-- vet: this very process may be granted from, under the generation that was begun for it.
-- KEYS 1 meta   ARGV 1 clusterUid, 2 run_id, 3 generation, 4 the highest number that the caller saw: the next one is above it, 5 uid of
--      the vetting
-- returns {'ok'} | {'foreign', clusterUid} | {'other', run_id} | {'older', gen}
local function vet(keys, args)
  local head = redis.call('HMGET', keys[1], 'clusterUid', 'gen', 'commits', 'vettingUid', 'begunFor')
  if head[1] ~= args[1] then return { 'foreign', head[1] or '' } end
  if head[3] and not safe(head[3]) then return { 'meta', 'commits', head[3] } end
  if not safe(head[2]) then return { 'meta', 'gen', head[2] or '' } end
  local run = run_id()
  if run ~= args[2] then return { 'other', run } end
  if head[2] ~= args[3] or head[4] ~= args[5] or head[5] ~= history() then return { 'older', head[2] } end
  local commits = newest_number(head[3], clock(), args[4])
  redis.call('HSET', keys[1], 'vettedRunId', run, 'vettedReplId', repl_id(), 'lastVetted', args[5], 'turnVetted', '1', 'commits', commits)
  return { 'ok' }
end

redis.register_function('holdfast_v8_commit', commit)
redis.register_function('holdfast_v8_init', init)
redis.register_function('holdfast_v8_begin', begin)
redis.register_function('holdfast_v8_vet', vet)
redis.register_function{ function_name = 'holdfast_v8_read', callback = read, flags = { 'no-writes' } }
redis.register_function{ function_name = 'holdfast_v8_placed', callback = placed, flags = { 'no-writes' } }
redis.register_function{ function_name = 'holdfast_v8_list', callback = list, flags = { 'no-writes' } }
redis.register_function{ function_name = 'holdfast_v8_count', callback = count, flags = { 'no-writes' } }
redis.register_function{ function_name = 'holdfast_v8_identity', callback = identity, flags = { 'no-writes' } }
