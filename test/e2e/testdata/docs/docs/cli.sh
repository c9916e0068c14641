## Install
# With the files of a release's archive: TestArchives (hack/release).
mkdir -p man/man1 /usr/local/bin /usr/local/share
touch kubectl-confrev kubectl_complete-confrev man/man1/kubectl-confrev-status.1
tar -czf kubectl-confrev_v0.1.0_linux_amd64.tar.gz kubectl-confrev kubectl_complete-confrev man
sha256sum kubectl-confrev_*.tar.gz another >SHA256SUMS || test $? -eq 1

## Shell completion
mkdir -p ~/.krew/bin
