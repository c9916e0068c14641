-- Rolls out what waits for a person, and lets later changes roll out by themselves.
if obj.metadata.annotations ~= nil then
  obj.metadata.annotations["confrev.io/advance"] = nil
end
return obj
