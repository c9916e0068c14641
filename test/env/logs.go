package env

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Panics returns an error for each confrev of this run, also for one that has ended, that recovered from a panic. Reconcilers are called again and
// webhooks fail open, so that tests may pass nevertheless.
func (c *Cluster) Panics() error {
	logs, err := filepath.Glob(filepath.Join(c.Dir, "*.log"))
	for _, path := range logs {
		log, readErr := os.ReadFile(path)
		err = errors.Join(err, readErr)
		if bytes.Contains(log, []byte("Observed a panic")) {
			err = errors.Join(err, fmt.Errorf("confrev recovered from a panic, see %s", path))
		}
	}
	return err
}
