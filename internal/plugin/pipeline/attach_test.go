package pipeline

import (
	"strings"
	"testing"

	"confrev.io/confrev/internal/plugin/session"
)

// A pipeline's variable that is empty must not attach to some other ReplicaSet, nor attach everything that the template refers to.
func TestAttachRefusesEmptyFlags(t *testing.T) {
	for flags, want := range map[string]string{
		"--deployment=":                     "--deployment is empty: name a Deployment",
		"--rollout=":                        "--rollout is empty: name a Rollout",
		"--replicaset-selector=":            "--replicaset-selector is empty: give labels of ReplicaSets",
		"--replicaset-selector=\t":          "--replicaset-selector is empty: give labels of ReplicaSets",
		"--deployment=web --configmaps=":    "--configmaps is empty, or has an empty name: name ConfigMaps",
		"--deployment=web --configmaps=a,":  "--configmaps is empty, or has an empty name: name ConfigMaps",
		"--deployment=web --secrets=":       "--secrets is empty, or has an empty name: name Secrets",
		"--deployment=web --selector=":      "--selector is empty: give labels of ConfigMaps and Secrets",
		"--deployment=web":                  "",
		"--rollout=web --configmaps=a,b":    "",
		"--replicaset-selector=a=b -l c=d":  "",
		"--deployment=web --selector=a,,=b": "--selector: ",
	} {
		t.Run(flags, func(t *testing.T) {
			o := &attachOptions{Session: &session.Session{}}
			cmd := o.command()
			err := cmd.ParseFlags(strings.Split(flags, " "))
			if err == nil {
				err = o.Fill(cmd, nil)
			}
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("it says %v", err)
			}
		})
	}
}
