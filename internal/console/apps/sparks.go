package apps

import (
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"ingot/internal/console/page"
)

const (
	// sparkSpan is how far charts look back: as far as the log cache keeps measurements.
	sparkSpan = 15 * time.Minute
	// sparkStep is the time between two points.
	sparkStep = 15 * time.Second
	// sparkFor is how long a chart is shown before it is read again; apps are measured as often.
	sparkFor = 15 * time.Second
	// maxSparks limits the charts in memory.
	maxSparks = 5000
)

// sparks keeps the charts of lists, which are rendered more often than apps are measured.
type sparks struct {
	mu sync.Mutex
	of map[string]charts // by user and app
}

type charts struct {
	CPU, Memory *spark
	read        time.Time
}

// charts returns what an app used in the last minutes. The log cache begins to measure an app
// when it is first asked.
func (c *pages) charts(call *page.Caller, guid string) (charts, error) {
	key, now := call.Session.UserID+" "+guid, time.Now()
	c.sparks.mu.Lock()
	found, ok := c.sparks.of[key]
	c.sparks.mu.Unlock()
	if ok && now.Sub(found.read) < sparkFor {
		return found, nil
	}
	found = charts{read: now}
	err := page.Together(
		func() (err error) {
			found.CPU, err = readChart(call, "CPU", "cpu", guid, now, func(v float64) string { return fmt.Sprintf("%.1f%%", v) })
			return err
		},
		func() (err error) {
			found.Memory, err = readChart(call, "Memory", "memory", guid, now,
				func(v float64) string { return page.HumanBytes(int64(v)) })
			return err
		},
	)
	if err != nil {
		return charts{}, err
	}
	c.sparks.mu.Lock()
	defer c.sparks.mu.Unlock()
	if len(c.sparks.of) >= maxSparks || c.sparks.of == nil {
		c.sparks.of = map[string]charts{}
	}
	c.sparks.of[key] = found
	return found, nil
}

// readChart reads a metric of all instances of an app; nil means that it was not measured, or that
// the user may not read it.
func readChart(c *page.Caller, name, metric, guid string, now time.Time, say func(float64) string) (*spark, error) {
	var answer struct {
		Data struct {
			Result []struct {
				Values [][2]any `json:"values"`
			} `json:"result"`
		} `json:"data"`
	}
	seconds := func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
	err := c.Get(&answer, "/api/v1/query_range", url.Values{
		"query": {fmt.Sprintf("sum(%s{source_id=%q})", metric, guid)}, "start": {seconds(now.Add(-sparkSpan))},
		"end":  {seconds(now)},
		"step": {strconv.Itoa(int(sparkStep / time.Second))},
	})
	if page.Gone(err) {
		return nil, nil
	}
	var values []float64
	for _, series := range answer.Data.Result {
		for _, v := range series.Values {
			if text, ok := v[1].(string); ok {
				if n, err := strconv.ParseFloat(text, 64); err == nil {
					values = append(values, n)
				}
			}
		}
	}
	return newSpark(name, values, say), err
}
