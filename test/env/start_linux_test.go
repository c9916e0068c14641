package env

import (
	"bufio"
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
	if err := startSleep(); err != nil {
		panic(err)
	}
	select {}
}

// startSleep starts a command on a thread that ends then, and says the command's id.
func startSleep() error {
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
		return err
	}
	for {
		if _, err := os.Stat(thread); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	_, err := os.Stdout.WriteString(strconv.Itoa(child.Process.Pid) + "\n")
	return err
}

// What a test starts lives as long as the test's process, and no longer, also when that is killed.
func TestWhatIsStartedEndsWithItsProcess(t *testing.T) {
	test := exec.Command(os.Args[0])
	test.Env = append(os.Environ(), starting+"=1")
	// The command writes to it too, so its end is that of both.
	out, err := test.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := test.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = test.Wait() }()
	read := bufio.NewReader(out)
	said, err := read.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(said))
	if err != nil {
		t.Fatal(err)
	}
	if command, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); err != nil || !strings.HasPrefix(string(command), "sleep") {
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
	if _, err := io.ReadAll(read); err != nil {
		t.Fatal(err)
	}
}
