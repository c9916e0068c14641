-- Ends a stop that a person made.
if obj.metadata.annotations ~= nil then
  obj.metadata.annotations["confrev.io/stop"] = nil
end
return obj
