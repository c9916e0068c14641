-- Health of a ConfigMap or Secret: Degraded while a change to it is stopped. Others have no health, as without this script.
local annotations = obj.metadata.annotations or {}
local labels = obj.metadata.labels or {}

-- A source that someone stopped. Only confrev knows the present revision, so a stop of earlier content is shown too.
local stop = annotations["confrev.io/stop"]
if labels["confrev.io/content"] == nil then
  if stop == nil or stop == "" then
    return nil
  end
  return {
    status = "Degraded",
    message = "The change to revision " .. stop .. " is stopped: no further workload gets it. To continue, use the action resume.",
  }
end

-- A revision, on which confrev notes how a change spreads. A note is void in a copy: it names the object and the number that it is about.
local note = annotations["confrev.io/propagation"]
if note == nil then
  return nil
end
local uid = string.match(note, '"revision":"([^"]*)"')
local number = string.match(note, '"number":(%d+)')
local stops = string.match(note, '"stops":(%d+)')
if uid ~= obj.metadata.uid or number ~= annotations["confrev.io/number"] then
  return nil
end
if stops ~= nil and string.find(note, '"complete":true', 1, true) == nil then
  local failed = {}
  for member in string.gmatch(string.match(note, '"failed":%[([^%]]*)%]') or "", '"([^"@]*)@?%d*"') do
    table.insert(failed, member)
  end
  return {
    status = "Degraded",
    message = "The change was stopped because workloads failed with it: " .. table.concat(failed, ", ") .. ".",
  }
end
return nil
