-- Pins earlier revisions, and leaves the image as it is. The annotation confrev.io/pins of an older ReplicaSet has the text. confrev then holds the
-- workload there, as after kubectl rollout undo.
local pins = actionParams["pins"]
if pins == nil or pins == "" then
  error("write the pins of an older ReplicaSet, such as configmap/app=app-5f7d8c9b2k@3")
end
obj.spec.template.metadata.annotations["confrev.io/pins"] = pins
return obj
