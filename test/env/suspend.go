package env

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// suspendPatience is how long the threads of a process may take to stop on an overloaded machine.
const suspendPatience = time.Minute

// Suspend stops a process, and returns once all its threads have stopped; Resume lets it continue. The signal alone says nothing of the kind:
// each thread runs until it is scheduled the next time, and on a busy machine that is long enough to answer a request. It needs /proc.
func Suspend(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		running, err := runningThread(pid)
		if err != nil || running == "" {
			return err
		}
		if time.Since(began) > suspendPatience {
			return fmt.Errorf("process %d was told to stop, and runs: %s", pid, running)
		}
	}
}

// Resume lets a process continue that was suspended.
func Resume(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }

// runningThread returns what the kernel says about a thread of a process that is not stopped; nothing if all are.
func runningThread(pid int) (string, error) {
	threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "stat"))
	if err != nil || len(threads) == 0 {
		return "", errors.Join(err, fmt.Errorf("no process %d in /proc", pid))
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // It has ended meanwhile.
		}
		if err != nil {
			return "", err
		}
		// "id (name) state …", where the name may have anything in it.
		if state := stat[bytes.LastIndexByte(stat, ')')+1:]; !bytes.HasPrefix(state, []byte(" T")) {
			return string(stat[:len(stat)-len(state)+2]), nil
		}
	}
	return "", nil
}
