-- Actions of a source. A revision has none: no one may change it.
local actions = {}
local labels = obj.metadata.labels or {}
if labels["confrev.io/content"] ~= nil then
  return actions
end
local stop = (obj.metadata.annotations or {})["confrev.io/stop"]
local stopped = stop ~= nil and stop ~= ""
actions["stop"] = {
  ["disabled"] = stopped or labels["confrev.io/source"] == nil,
  ["displayName"] = "Stop the change",
  ["iconClass"] = "fa fa-fw fa-hand-paper",
  ["params"] = { { ["name"] = "revision" } },
}
actions["resume"] = {
  ["disabled"] = not stopped,
  ["displayName"] = "Continue the change",
  ["iconClass"] = "fa fa-fw fa-play-circle",
}
return actions
