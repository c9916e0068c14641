package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"confrev.io/confrev/test/gen"
)

// Metrics are what confrev's metrics endpoint shows at one moment.
type Metrics map[string]*dto.MetricFamily

// ReadMetrics reads confrev's metrics.
func (c *Confrev) ReadMetrics(ctx context.Context) (Metrics, error) {
	body, err := get(ctx, c.Metrics)
	if err != nil {
		return nil, err
	}
	return ParseMetrics(bytes.NewReader(body))
}

// ParseMetrics reads metrics in Prometheus' text format.
func ParseMetrics(text io.Reader) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(text)
}

// get returns what a URL answers with. Any status but 200 is an error.
func get(ctx context.Context, url string) (body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}

// Sum adds up the metrics of a name that have all these labels, given as name, value, …: of counters and gauges the values, of
// histograms how many observations they have.
func (m Metrics) Sum(name string, labels ...string) float64 {
	var sum float64
	for _, metric := range m[name].GetMetric() {
		wanted := gen.Data(labels...)
		for _, pair := range metric.GetLabel() {
			if wanted[pair.GetName()] == pair.GetValue() {
				delete(wanted, pair.GetName())
			}
		}
		if len(wanted) == 0 {
			sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// PodAdmission reports what resolves pins, as confrev sees it: "policy", "webhook", "off" or "none".
func (c *Confrev) PodAdmission(ctx context.Context) (string, error) {
	metrics, err := c.ReadMetrics(ctx)
	if err != nil {
		return "", err
	}
	for _, by := range []string{"policy", "webhook", "off"} {
		if metrics.Sum("confrev_pod_admission", "by", by) == 1 {
			return by, nil
		}
	}
	return "none", nil
}
