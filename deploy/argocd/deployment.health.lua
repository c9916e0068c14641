-- Health of a Deployment: what Argo CD reports without this script, with the reason why its configuration is not the present one.
local spec = obj.spec or {}
local status = obj.status or {}
local annotations = obj.metadata.annotations or {}
local template = (spec.template or {}).metadata or {}

-- held returns what the Deployment was rolled back from and stays away from.
local function held()
  local pins = {}
  for source, pin in string.gmatch((template.annotations or {})["confrev.io/pins"] or "", "([^=,]+)=([^,]+)") do
    pins[source] = pin
  end
  local from = {}
  for note in string.gmatch(annotations["confrev.io/held"] or "", "[^,]+") do
    local source, revision, on = string.match(note, "^([^=]+)=([^;]+);on=([^;]+)")
    if source ~= nil and pins[source] == on and string.match(note, ";ended$") == nil then
      table.insert(from, source .. " (" .. revision .. ")")
    end
  end
  return from
end

local function healthy()
  local from = held()
  if #from > 0 then
    return {
      status = "Healthy",
      message = "Held: it was rolled back from " .. table.concat(from, ", ") .. ". To continue: kubectl confrev resume deployment/" .. obj.metadata.name,
    }
  end
  local advance = annotations["confrev.io/advance"]
  if advance == "manual" or advance == "on-deploy" then
    return { status = "Healthy", message = "Changes to its configuration wait (confrev.io/advance: " .. advance .. ")." }
  end
  return { status = "Healthy" }
end

if spec.paused == true then
  local missing = annotations["confrev.io/paused"]
  if missing ~= nil and missing ~= "" then
    return { status = "Suspended", message = "confrev paused it until there is: " .. missing }
  end
  return { status = "Suspended", message = "Deployment is paused" }
end
if (obj.metadata.generation or 0) > (status.observedGeneration or 0) then
  return { status = "Progressing", message = "Waiting for rollout to finish: observed deployment generation less than desired generation" }
end
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Progressing" and condition.reason == "ProgressDeadlineExceeded" then
    return { status = "Degraded", message = 'Deployment "' .. obj.metadata.name .. '" exceeded its progress deadline' }
  end
end
local replicas = status.replicas or 0
local updated = status.updatedReplicas or 0
local available = status.availableReplicas or 0
if spec.replicas ~= nil and updated < spec.replicas then
  return {
    status = "Progressing",
    message = "Waiting for rollout to finish: " .. updated .. " out of " .. spec.replicas .. " new replicas have been updated...",
  }
end
if replicas > updated then
  return { status = "Progressing", message = "Waiting for rollout to finish: " .. replicas - updated .. " old replicas are pending termination..." }
end
if available < updated then
  return { status = "Progressing", message = "Waiting for rollout to finish: " .. available .. " of " .. updated .. " updated replicas are available..." }
end
return healthy()
