package apps

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// figures say how a route is used, by the lines that the router wrote to the log of its app.
type figures struct {
	Requests, Errors int     // Errors have a status of 500 and above
	P95              float64 // in ms
	times            []float64
}

// countRequests returns the figures of each route.
func countRequests(routes []route, lines []line) []figures {
	counted := make([]figures, len(routes))
	for _, l := range lines {
		if l.Source != "RTR" {
			continue
		}
		host, path, status, ms, ok := parseAccess(l.Text)
		if !ok {
			continue
		}
		// The longest path that fits, as the router chooses.
		best, longest := -1, -1
		for i, r := range routes {
			at, under, _ := strings.Cut(r.URL, "/")
			if !strings.EqualFold(at, host) || under != "" && path != "/"+under && !strings.HasPrefix(path, "/"+under+"/") {
				continue
			}
			if len(r.URL) > longest {
				best, longest = i, len(r.URL)
			}
		}
		if best < 0 {
			continue
		}
		f := &counted[best]
		f.Requests++
		f.times = append(f.times, ms)
		if status >= 500 {
			f.Errors++
		}
	}
	for i := range counted {
		f := &counted[i]
		slices.Sort(f.times)
		if n := len(f.times); n > 0 {
			f.P95 = f.times[min(n-1, n*95/100)]
		}
	}
	return counted
}

// parseAccess parses a line of the router: HOST - [TIME] "METHOD URI PROTO" STATUS ...
// response_time:SECONDS.
func parseAccess(text string) (host, path string, status int, ms float64, ok bool) {
	host, rest, ok := strings.Cut(text, " - [")
	if !ok {
		return "", "", 0, 0, false
	}
	host, _, _ = strings.Cut(host, ":")
	_, rest, _ = strings.Cut(rest, `] "`)
	request, rest, ok := strings.Cut(rest, `" `)
	parts := strings.Fields(request)
	if !ok || len(parts) < 2 {
		return "", "", 0, 0, false
	}
	path, _, _ = strings.Cut(parts[1], "?")
	number, rest, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(number)
	if err != nil {
		return "", "", 0, 0, false
	}
	if _, seconds, found := strings.Cut(rest, "response_time:"); found {
		seconds, _, _ = strings.Cut(seconds, " ")
		value, err := strconv.ParseFloat(seconds, 64)
		if err == nil {
			ms = value * 1000
		}
	}
	return host, path, status, ms, true
}

// spark is a small chart of what was measured, oldest first: a line in a box of sparkWidth by
// sparkHeight.
type spark struct {
	Points string // of an SVG polyline
	Label  string // says the same
}

const (
	sparkWidth  = 80
	sparkHeight = 20
)

// newSpark draws values from 0 to the largest; say writes a value as text.
func newSpark(name string, values []float64, say func(float64) string) *spark {
	if len(values) < 2 {
		return nil
	}
	most := slices.Max(values)
	scale := 0.0
	if most > 0 {
		scale = (sparkHeight - 2) / most
	}
	var b strings.Builder
	for i, v := range values {
		x := float64(i) * sparkWidth / float64(len(values)-1)
		fmt.Fprintf(&b, "%g,%g ", math.Round(x*10)/10, math.Round((sparkHeight-1-v*scale)*10)/10)
	}
	label := name + ": now " + say(values[len(values)-1]) + ", at most " + say(most)
	return &spark{strings.TrimSpace(b.String()), label}
}
