kubectl create secret generic db --from-literal=password=example
