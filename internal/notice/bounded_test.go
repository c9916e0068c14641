package notice

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"confrev.io/confrev/internal/pin"
)

// conditions returns so many with the same reason, each with a text that is that long.
func conditions(n, length int, about func(i int) pin.Source) []Notice {
	var all []Notice
	for i := range n {
		all = append(all, Warning("KeyMissing", about(i), "%d %s", i, strings.Repeat("x", length)))
	}
	return all
}

func each(i int) pin.Source {
	return pin.Source{Kind: pin.ConfigMap, Name: fmt.Sprintf("app-%d", i)}
}

func none(int) pin.Source { return pin.Source{} }

// Anyone who may create a workload decides how much is wrong with it.
func TestNewsCostNoMoreThanTheirTexts(t *testing.T) {
	for name, about := range map[string]func(int) pin.Source{"about one thing": none, "about many": each} {
		all := conditions(20_000, 50, about)
		least := uint64(math.MaxUint64)
		// Others may allocate meanwhile.
		for range 3 {
			var r Reported
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			fresh := r.News(all)
			runtime.ReadMemStats(&after)
			least = min(least, after.TotalAlloc-before.TotalAlloc)
			if len(fresh) > 21 {
				t.Errorf("%s: %d notices", name, len(fresh))
			}
			for _, n := range fresh {
				if len(n.Text) > MaxText {
					t.Errorf("%s: a text of %d bytes", name, len(n.Text))
				}
			}
		}
		if least > 10_000_000 {
			t.Errorf("%s: %d bytes for 20,000 texts of 50 bytes", name, least)
		}
	}
}

// What was said is remembered for as long as the workload exists.
func TestReportedKeepsNoTexts(t *testing.T) {
	const workloads, length = 200, 100_000
	all := make([]Reported, workloads)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range all {
		condition := conditions(1, length, none)
		if got := all[i].News(condition); len(got) != 1 || len(got[0].Text) > MaxText {
			t.Fatalf("%d notices", len(got))
		}
		// The end of a text counts too, although no one sees it.
		condition[0].Text += "y"
		if got := all[i].News(condition); len(got) != 1 {
			t.Fatalf("%d notices about another text", len(got))
		}
		if got := all[i].News(condition); len(got) > 0 {
			t.Fatalf("%d notices about the same text", len(got))
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > workloads*length/10 {
		t.Errorf("%d bytes are kept of %d texts of %d bytes", kept, workloads, length)
	}
	runtime.KeepAlive(all)
}

func TestFew(t *testing.T) {
	other := Warning("SourceMissing", pin.Source{}, "b")
	normal := conditions(22, 1, each)
	for i := range normal {
		normal[i].Normal = true
	}
	twenty := conditions(20, 1, each)
	more := func(n int, normal bool) Notice {
		return Notice{Reason: "KeyMissing", Normal: normal, Text: fmt.Sprintf("and %d more of this kind, which kubectl confrev status shows", n)}
	}
	tests := map[string]struct{ all, want []Notice }{
		"none":                    {nil, nil},
		"as many as are told":     {append(twenty[:20:20], other), append(twenty[:20:20], other)},
		"one more":                {conditions(21, 1, each), append(twenty[:20:20], more(1, false))},
		"another among them":      {append(append(conditions(21, 1, each), other), conditions(30, 2, each)[25:]...), append(twenty[:20:20], other, more(6, false))},
		"what is there twice":     {append(twenty[:20:20], twenty...), twenty},
		"the same about another":  {[]Notice{{Reason: "a", Text: "x", Source: each(1)}, {Reason: "a", Text: "x", Source: each(2)}}, []Notice{{Reason: "a", Text: "x", Source: each(1)}}},
		"the same, other reason":  {[]Notice{{Reason: "a", Text: "x"}, {Reason: "b", Text: "x"}}, []Notice{{Reason: "a", Text: "x"}, {Reason: "b", Text: "x"}}},
		"what is nothing unusual": {normal, append(normal[:20:20], more(2, true))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Few(test.all)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What is said about the rest is said once, and again when there are more.
func TestTheRestIsNews(t *testing.T) {
	var r Reported
	r.News(conditions(30, 1, each))
	if got := r.News(conditions(30, 1, each)); len(got) > 0 {
		t.Errorf("it says %+v again", got)
	}
	if got := r.News(conditions(31, 1, each)); len(got) != 1 || !strings.Contains(got[0].Text, "and 11 more") {
		t.Errorf("of one more it says %+v", got)
	}
}

func TestNames(t *testing.T) {
	for n, want := range map[int]string{
		0: "", 1: "app-0", 5: "app-0, app-1, app-2, app-3, app-4", 6: "app-0, app-1, app-2, app-3, app-4 and 1 more", 200: "app-0, app-1, app-2, app-3, app-4 and 195 more",
	} {
		var all []string
		for i := range n {
			all = append(all, each(i).Name)
		}
		if got := Names(all); got != want {
			t.Errorf("%d names: %q, want %q", n, got, want)
		}
	}
}
