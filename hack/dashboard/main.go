// Command dashboard draws the Grafana dashboard of the chart as a picture for the docs, from what its queries returned in an end-to-end
// test:
//
//	dashboard RESULTS PICTURE
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-analyze/charts"
)

const (
	// The grid of Grafana has 24 columns.
	column, row = 50, 38
	gap         = 6
)

// panel is a panel as test/e2e writes it.
type panel struct {
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct {
		LegendFormat string
		Result       []series
	}
}

type series struct {
	Metric map[string]string
	// Values are pairs of a time in seconds and a number as text.
	Values [][2]any
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: dashboard RESULTS PICTURE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

func run(results, picture string) error {
	text, err := os.ReadFile(results)
	if err != nil {
		return err
	}
	var panels []panel
	if err := json.Unmarshal(text, &panels); err != nil {
		return fmt.Errorf("%s: %w", results, err)
	}
	drawn, err := draw(panels)
	if err != nil {
		return err
	}
	return os.WriteFile(picture, drawn, 0o644)
}

func draw(panels []panel) ([]byte, error) {
	height, all := 0, span{math.Inf(1), math.Inf(-1)}
	for _, p := range panels {
		all.include(p)
		height = max(height, (p.GridPos.Y+p.GridPos.H)*row)
	}
	page := charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: 24 * column, Height: height})
	page.FilledRect(0, 0, 24*column, height, charts.ColorRGB(244, 245, 245), charts.ColorTransparent, 0)
	for _, p := range panels {
		if err := p.draw(page, all); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Title, err)
		}
	}
	return page.Bytes()
}

func (p panel) draw(page *charts.Painter, all span) error {
	g := p.GridPos
	left, top, right, bottom := g.X*column+gap/2, g.Y*row+gap/2, (g.X+g.W)*column-gap/2, (g.Y+g.H)*row-gap/2
	page.FilledRect(left, top, right, bottom, charts.ColorWhite, charts.ColorRGB(220, 220, 225), 1)
	page.Text(p.Title, left+10, top+18, 0, font(10, charts.ColorBlack))
	inner := page.Child(charts.PainterBoxOption(charts.Box{Left: left + 6, Top: top + 26, Right: right - 6, Bottom: bottom - 4, IsSet: true}))
	switch p.Type {
	case "stat":
		return p.stat(inner, all)
	case "timeseries":
		return p.lines(inner, all)
	default:
		return fmt.Errorf("panels of the type %q cannot be drawn", p.Type)
	}
}

// stat writes the newest value.
func (p panel) stat(at *charts.Painter, all span) error {
	names, values, _, err := p.series(all)
	if err != nil {
		return err
	}
	if len(values) == 0 {
		return errors.New("it has no value")
	}
	text := names[0]
	if text == "" {
		newest := slices.DeleteFunc(values[0], func(v float64) bool { return v == charts.GetNullValue() })
		text = strconv.FormatFloat(newest[len(newest)-1], 'f', -1, 64)
	}
	size := 30.0
	if len(text) > 8 {
		size = 13
	}
	style := font(size, charts.ColorRGB(31, 96, 196))
	box := at.MeasureText(text, 0, style)
	at.Text(text, (at.Width()-box.Width())/2, (at.Height()+box.Height())/2, 0, style)
	return nil
}

// lines draws a line for each series.
func (p panel) lines(at *charts.Painter, all span) error {
	names, values, times, err := p.series(all)
	if err != nil {
		return err
	}
	if len(values) == 0 {
		return errors.New("it has no series")
	}
	option, small := charts.NewLineChartOptionWithData(values), font(8, charts.ColorBlack)
	option.Theme, option.Legend = charts.GetDefaultTheme(), charts.LegendOption{Show: new(false)}
	// The library's own legend writes its second line over the first.
	x, y := 4, 10
	for i, name := range names {
		width := at.MeasureText(name, 0, small).Width()
		if x > 4 && x+16+width > at.Width() {
			x, y = 4, y+14
		}
		at.FilledRect(x, y-6, x+10, y-3, option.Theme.GetSeriesColor(i), charts.ColorTransparent, 0)
		at.Text(name, x+14, y, 0, small)
		x += 28 + width
	}
	at = at.Child(charts.PainterPaddingOption(charts.Box{Top: y + 8, IsSet: true}))
	option.XAxis = charts.XAxisOption{Labels: times, LabelCount: 4, LabelFontStyle: small}
	option.YAxis = []charts.YAxisOption{{Min: new(0.0), LabelCount: 5, LabelFontStyle: small}}
	option.LineStrokeWidth = 1.5
	option.Symbol = charts.Symbol{Shape: charts.SymbolNone}
	return at.LineChart(option)
}

// span is from the first to the last second of all panels.
type span struct{ first, last float64 }

func (s *span) include(p panel) {
	for _, t := range p.Targets {
		for _, r := range t.Result {
			s.first, s.last = math.Min(s.first, r.Values[0][0].(float64)), math.Max(s.last, r.Values[len(r.Values)-1][0].(float64))
		}
	}
}

// series returns the names of all series, their values at all times (charts' null where there is none), and the times as texts.
func (p panel) series(all span) (names []string, values [][]float64, times []string, err error) {
	for at := all.first; at <= all.last; at++ {
		times = append(times, time.Unix(int64(at), 0).UTC().Format(time.TimeOnly))
	}
	for _, t := range p.Targets {
		for _, s := range t.Result {
			line := make([]float64, len(times))
			for i := range line {
				line[i] = charts.GetNullValue()
			}
			for _, v := range s.Values {
				number, err := strconv.ParseFloat(v[1].(string), 64)
				if err != nil {
					return nil, nil, nil, err
				}
				if !math.IsNaN(number) && !math.IsInf(number, 0) {
					line[int(v[0].(float64)-all.first)] = number
				}
			}
			names, values = append(names, legend(t.LegendFormat, s.Metric)), append(values, line)
		}
	}
	return names, values, times, nil
}

var label = regexp.MustCompile(`{{(\w+)}}`)

// legend fills in a format such as {{state}}, as Grafana does.
func legend(format string, labels map[string]string) string {
	return label.ReplaceAllStringFunc(format, func(found string) string { return labels[strings.Trim(found, "{}")] })
}

func font(size float64, color charts.Color) charts.FontStyle {
	style := charts.NewFontStyleWithSize(size)
	style.FontColor = color
	return style
}
