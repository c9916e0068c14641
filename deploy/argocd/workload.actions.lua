-- Actions of a workload that confrev has pinned. Those that Argo CD has itself stay.
local actions = {}
local template = ((obj.spec or {}).template or {}).metadata or {}
local pins = (template.annotations or {})["confrev.io/pins"]
if pins == nil then
  return actions
end
local manual = (obj.metadata.annotations or {})["confrev.io/advance"] == "manual"
actions["confrev-wait"] = {
  ["disabled"] = manual,
  ["displayName"] = "Let changes to the configuration wait",
  ["iconClass"] = "fa fa-fw fa-pause-circle",
}
actions["confrev-advance"] = {
  ["disabled"] = not manual,
  ["displayName"] = "Roll out changes to the configuration",
  ["iconClass"] = "fa fa-fw fa-play-circle",
}
actions["confrev-undo"] = {
  ["displayName"] = "Roll back the configuration",
  ["iconClass"] = "fa fa-fw fa-undo",
  ["params"] = { { ["name"] = "pins" } },
}
return actions
