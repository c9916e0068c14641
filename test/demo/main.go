// Command demo tells confrev's story on a real control plane of hack/cluster, shows with kubectl what happens, and checks
// each thing that it says. A story is a list of steps (web.go, canary.go), made of actions (actions.go); stage.go tells it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// stories are those that can be told, by the word on the command line.
var stories = map[string]story{"": webStory, "canary": canaryStory}

func main() {
	name := flag.String("name", "confrev", "name of the cluster")
	flag.Parse()
	told, ok := stories[flag.Arg(0)]
	if !ok || flag.NArg() > 1 {
		fmt.Fprintln(os.Stderr, "usage: demo [--name CLUSTER] [canary]")
		os.Exit(2)
	}
	os.Exit(run(*name, told))
}

// run reports a story and returns the exit status.
func run(name string, told story) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &stage{ctx: ctx, story: told, names: map[string]string{}, colours: term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == ""}
	err := s.tell(name)
	if err == nil && term.IsTerminal(int(os.Stdin.Fd())) {
		s.stay()
	}
	switch {
	case err == nil:
		err = s.leave()
	case ctx.Err() != nil:
		err = ctx.Err()
	default:
		s.lookHere()
	}
	if err != nil {
		s.print(red, "✗ "+err.Error())
		return 1
	}
	return 0
}
