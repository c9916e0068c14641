package env

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are what confrev's metrics endpoint shows at one moment.
type Metrics map[string]*dto.MetricFamily

// ReadMetrics reads confrev's metrics.
func (c *Confrev) ReadMetrics(ctx context.Context) (metrics Metrics, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Metrics, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", c.Metrics, response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

// Sum adds up the counters or gauges of a name, over all labels.
func (m Metrics) Sum(name string) float64 {
	var sum float64
	for _, metric := range m[name].GetMetric() {
		sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
	}
	return sum
}

// SumWith adds up the counters or gauges of a name that have a label of that value.
func (m Metrics) SumWith(name, label, value string) float64 {
	var sum float64
	for _, metric := range m[name].GetMetric() {
		for _, pair := range metric.GetLabel() {
			if pair.GetName() == label && pair.GetValue() == value {
				sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// Count adds up how many observations the histograms of a name have that have all these labels, given as name, value, ….
func (m Metrics) Count(name string, labels ...string) float64 {
	var count uint64
	for _, metric := range m[name].GetMetric() {
		has := map[string]string{}
		for _, pair := range metric.GetLabel() {
			has[pair.GetName()] = pair.GetValue()
		}
		wanted := true
		for i := 0; i < len(labels); i += 2 {
			wanted = wanted && has[labels[i]] == labels[i+1]
		}
		if wanted {
			count += metric.GetHistogram().GetSampleCount()
		}
	}
	return float64(count)
}

// PodAdmission reports what resolves pins, as confrev sees it: "policy", "webhook" or "none".
func (c *Confrev) PodAdmission(ctx context.Context) (string, error) {
	metrics, err := c.ReadMetrics(ctx)
	if err != nil {
		return "", err
	}
	for _, by := range []string{"policy", "webhook"} {
		if metrics.SumWith("confrev_pod_admission", "by", by) == 1 {
			return by, nil
		}
	}
	return "none", nil
}
