-- Lets a revision go no further. Its name is in the tree of the application, below the workloads that use it.
local revision = actionParams["revision"]
if revision == nil or revision == "" then
  error("name the revision that goes no further, such as app-5f7d8c9b2k")
end
obj.metadata.annotations = obj.metadata.annotations or {}
obj.metadata.annotations["confrev.io/stop"] = revision
return obj
