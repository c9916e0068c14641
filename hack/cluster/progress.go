package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/term"
)

// step runs one step and shows how long it takes, on stderr: on a terminal a line that is kept up to date, elsewhere
// a line about every 30 s. A step that was done at once says nothing.
func step(ctx context.Context, what string, do func(context.Context) error) error {
	const quiet = time.Second
	terminal := term.IsTerminal(int(os.Stderr.Fd()))
	every := 30 * time.Second
	if terminal {
		every = time.Second
	}
	begin := time.Now()
	elapsed := func() time.Duration { return time.Since(begin).Round(time.Second) }
	result := make(chan error, 1)
	go func() { result <- do(ctx) }()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case err := <-result:
			switch {
			case err != nil:
				clearLine(terminal)
				return fmt.Errorf("%s (after %s): %w", what, elapsed(), err)
			case terminal || time.Since(begin) >= quiet:
				clearLine(terminal)
				say("%s: done in %s", what, time.Since(begin).Round(100*time.Millisecond))
			}
			return nil
		case <-ticker.C:
			if terminal {
				clearLine(terminal)
				_, _ = fmt.Fprintf(os.Stderr, "%s … %s", what, elapsed())
				continue
			}
			say("%s … %s", what, elapsed())
		}
	}
}

func clearLine(terminal bool) {
	if terminal {
		_, _ = fmt.Fprint(os.Stderr, "\r\033[K")
	}
}

func say(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, format+"\n", args...)
}
