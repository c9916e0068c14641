package soak

import (
	"strings"
	"testing"
)

func TestGrowth(t *testing.T) {
	bounds := []bound{{"memory", 1.3, 10, false}, {"files", 1.3, 10, false}}
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

func TestWhatIsNotMeasuredDoesNotPass(t *testing.T) {
	for name, test := range map[string]struct {
		sample func(i int) sample
		want   string
	}{
		"it is there":          {func(int) sample { return sample{"memory": 1, "queued": 1} }, ""},
		"nothing is queued":    {func(int) sample { return sample{"memory": 1, "queued": 0} }, ""},
		"there is no memory":   {func(int) sample { return sample{"memory": 0, "queued": 0} }, "memory was not measured"},
		"no memory in the end": {func(i int) sample { return sample{"memory": float64(max(0, 20-i)), "queued": 0} }, "memory was not measured"},
		"a metric that goes": {func(i int) sample {
			return map[bool]sample{true: {"memory": 1, "queued": 1}, false: {"memory": 1}}[i < 30]
		}, "queued is missing in sample 31 of 40"},
		"a metric of no sample": {func(int) sample { return sample{"queued": 0} }, "memory is missing in sample 1 of 40"},
	} {
		t.Run(name, func(t *testing.T) {
			var samples []sample
			for i := range 40 {
				samples = append(samples, test.sample(i))
			}
			got := strings.Join(growth(samples, []bound{{"memory", 1.3, 10, false}, {"queued", 1.5, 10, true}}), "\n")
			if got != "" && test.want == "" || !strings.Contains(got, test.want) {
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
