package soak

import (
	"strings"
	"testing"
)

func TestGrowth(t *testing.T) {
	bounds := []bound{{"memory", 1.3, 10}, {"files", 1.3, 10}}
	for name, test := range map[string]struct {
		memory func(i int) float64
		want   string
	}{
		"it stays":                           {func(int) float64 { return 100 }, ""},
		"it fills up in the first quarter":   {func(i int) float64 { return float64(min(100, 10*i)) }, ""},
		"it goes up and down":                {func(i int) float64 { return float64(100 + 30*(i%2)) }, ""},
		"a small number varies":              {func(i int) float64 { return float64(i / 10) }, ""},
		"it grows steadily":                  {func(i int) float64 { return float64(100 + 10*i) }, "memory grew"},
		"it begins to grow late":             {func(i int) float64 { return float64(100 + 20*max(0, i-25)) }, "memory grew"},
		"it shrinks":                         {func(i int) float64 { return float64(1000 - 10*i) }, ""},
		"a single high sample in the middle": {func(i int) float64 { return map[bool]float64{true: 1000, false: 100}[i == 20] }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var samples []sample
			for i := range 40 {
				samples = append(samples, sample{"memory": test.memory(i), "files": 10})
			}
			got := strings.Join(growth(samples, bounds), "\n")
			if got != "" && test.want == "" || !strings.Contains(got, test.want) || strings.Contains(got, "files") {
				t.Errorf("complains of %q, want %q", got, test.want)
			}
		})
	}
}

func TestTooFewSamplesShowNothing(t *testing.T) {
	if got := growth(make([]sample, tooFew-1), nil); len(got) != 1 {
		t.Errorf("complains of %q", got)
	}
	if got := growth(make([]sample, tooFew), nil); len(got) != 0 {
		t.Errorf("complains of %q", got)
	}
}
