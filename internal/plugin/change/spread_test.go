package change

import (
	"testing"

	"confrev.io/confrev/internal/fleet"
	"confrev.io/confrev/internal/spread"
)

func TestResumeSaysWhoStaysRolledBack(t *testing.T) {
	s := &fleet.Survey{}
	s.Source.Namespace = "shop"
	s.Apart = []spread.Member{{Name: "deployment/manual"}}
	if got := staysBack(s); got != "" {
		t.Errorf("no one was rolled back: %q", got)
	}
	s.Apart = append(s.Apart, spread.Member{Name: "deployment/freed", RolledBack: true, ByStop: true})
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.Apart = append(s.Apart, spread.Member{Name: "deployment/" + name, RolledBack: true})
	}
	const want = "; rolled back by someone, and without it until you resume each: deployment/a, deployment/b, deployment/c and 2 more (kubectl confrev resume deployment/a -n shop)"
	if got := staysBack(s); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
