package env

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Clock is the wall clock of a program that BuildWithClock built. It goes ahead of the machine's, or is behind it, and jumps while the program runs. As
// with a real jump, what was measured between two moments stays what it was: Go measures that by another clock.
type Clock struct{ file string }

// clockVariable names the file by which a program finds its clock. Its content is by how many seconds the clock is ahead.
const clockVariable = "CONFREV_TEST_CLOCK"

// clockSource is added to Go's package time, where nothing but the system's interface is at hand.
const clockSource = `package time

import (
	"syscall"
	"unsafe"
)

// ahead is by how many seconds the clock is ahead.
var ahead = func() *int64 {
	none := new(int64)
	path, ok := syscall.Getenv("` + clockVariable + `")
	if !ok {
		return none
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY, 0)
	if err != nil {
		return none
	}
	shared, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return none
	}
	return (*int64)(unsafe.Pointer(&shared[0]))
}()
`

// BuildWithClock builds confrev as Build does, on top of a package time whose clock can be moved. Since all that confrev consists of depends on it,
// this takes minutes the first time. No code of confrev differs.
func (c *Cluster) BuildWithClock(ctx context.Context) (binary string, clock *Clock, err error) {
	dir := filepath.Join(c.Dir, "clock")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, err
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", nil, fmt.Errorf("find Go's own packages: %w", err)
	}
	overlay, err := clockOverlay(strings.TrimSpace(string(root)), dir)
	if err != nil {
		return "", nil, err
	}
	clock = &Clock{filepath.Join(dir, "ahead")}
	if err := clock.Set(0); err != nil {
		return "", nil, err
	}
	binary = filepath.Join(dir, "confrev")
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-ldflags=-s -w", "-o", binary, "./cmd/confrev")
	cmd.Dir = Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("build confrev with a clock: %w\n%s", err, out)
	}
	// It ends with this process's tests, like everything that it applies to.
	return binary, clock, os.Setenv(clockVariable, clock.file)
}

// clockOverlay writes what go build takes in the place of package time's files, and returns the file that says so. The files have the same names on every
// run, or go build would build all again.
func clockOverlay(root, dir string) (path string, err error) {
	original := filepath.Join(root, "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	const before = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	changed := strings.Replace(string(text), before, before+"\tsec += *ahead\n", 1)
	if changed == string(text) {
		return "", fmt.Errorf("%s does not have the function that is to be changed: this Go version has another", original)
	}
	files := map[string]string{original: filepath.Join(dir, "time.go"), filepath.Join(root, "src", "time", "zz_ahead.go"): filepath.Join(dir, "ahead.go")}
	list, err := json.Marshal(map[string]any{"Replace": files})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, errors.Join(os.WriteFile(files[original], []byte(changed), 0o644),
		os.WriteFile(filepath.Join(dir, "ahead.go"), []byte(clockSource), 0o644), os.WriteFile(path, list, 0o644))
}

// Set moves the clock, at once, also that of a program that runs.
func (c *Clock) Set(ahead time.Duration) error {
	var seconds [8]byte
	binary.NativeEndian.PutUint64(seconds[:], uint64(int64(ahead/time.Second)))
	// Not os.WriteFile, which would empty the file that is mapped.
	file, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(seconds[:], 0)
	return errors.Join(err, file.Close())
}
