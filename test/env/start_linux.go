package env

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Start starts a command that ends with this process, however that ends: nothing of a test that was killed continues acting on its
// cluster.
func Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	starts() <- func() { started <- cmd.Start() }
	return <-started
}

// starts is served by a thread that lives as long as this process. Linux sends the signal when the thread ends that started the
// command, and Go's threads come and go.
var starts = sync.OnceValue(func() chan<- func() {
	all := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range all {
			start()
		}
	}()
	return all
})
