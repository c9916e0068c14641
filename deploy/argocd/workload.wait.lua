-- Lets changes to the configuration wait for a person.
obj.metadata.annotations = obj.metadata.annotations or {}
obj.metadata.annotations["confrev.io/advance"] = "manual"
return obj
