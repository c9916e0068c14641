package env

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// starting makes this test binary start a command, say its id, and wait for its own end.
const starting = "CONFREV_TEST_STARTS"

func init() {
	if os.Getenv(starting) != "" {
		// So that no other goroutine is on the first thread, which never ends.
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(starting) == "" {
		os.Exit(m.Run())
	}
	startSleep()
	select {}
}

// startSleep starts a command on a thread that ends then, and says the command's id.
func startSleep() {
	child := exec.Command("sleep", "600")
	child.Stdout = os.Stdout
	thread, begun := "", make(chan error)
	go func() {
		// The thread ends with the goroutine that is locked to it.
		runtime.LockOSThread()
		thread = "/proc/self/task/" + strconv.Itoa(syscall.Gettid())
		begun <- Start(child)
	}()
	if err := <-begun; err != nil {
		panic(err)
	}
	for err := error(nil); err == nil; time.Sleep(time.Millisecond) {
		_, err = os.Stat(thread)
	}
	fmt.Println(child.Process.Pid)
}

// What a test starts lives as long as the test's process, and no longer, also when that is killed.
func TestWhatIsStartedEndsWithItsProcess(t *testing.T) {
	test := exec.Command(os.Args[0])
	test.Env = append(os.Environ(), starting+"=1")
	// The command writes to it too, so its end is that of both.
	out, err := test.StdoutPipe()
	if err := errors.Join(err, test.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = test.Wait() }()
	var pid int
	if _, err := fmt.Fscanln(out, &pid); err != nil {
		t.Fatal(err)
	}
	if command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil || !strings.HasPrefix(string(command), "sleep") {
		t.Errorf("it ended with the thread that asked for it: %q, %v", command, err)
	}
	if err := test.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(30*time.Second, func() {
		t.Error("it outlives the process that started it")
		_ = syscall.Kill(pid, syscall.SIGKILL)
	})
	defer late.Stop()
	if _, err := io.ReadAll(out); err != nil {
		t.Fatal(err)
	}
}

// A process that was told to stop may run for a while. A suspended one does not.
func TestASuspendedProcessDoesNothing(t *testing.T) {
	busy := exec.Command("sh", "-c", "while :; do :; done")
	if err := Start(busy); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = busy.Process.Kill(), busy.Wait() })
	if running, err := runningThread(busy.Process.Pid); err != nil || running == "" {
		t.Fatalf("it does not run: %v", err)
	}
	if err := Suspend(busy.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if running, err := runningThread(busy.Process.Pid); err != nil || running != "" {
		t.Errorf("it runs: %s %v", running, err)
	}
	if err := Resume(busy.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := busy.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = busy.Wait()
	if err := Suspend(busy.Process.Pid); err == nil {
		t.Error("a process that has ended was suspended")
	}
}
