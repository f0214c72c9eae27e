package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"ingot/internal/cli/client"
)

const (
	// lastLines is the number of log lines shown with a failure.
	lastLines = 10
	// lastLinesTime is how long reading them, or the end of a job's log, may take.
	lastLinesTime = 20 * time.Second
)

// everyStart are lines logged at every start; they explain nothing.
var everyStart = []string{"Invoking pre-start scripts.", "Invoking start command."}

// withLog adds the last log lines of the app or build to a failure, because they
// usually name the cause. source is a prefix of the sources to include.
func (s *session) withLog(ctx context.Context, app client.App, source string, failure error) error {
	var p *problem
	if s.cfg.Links.LogCache == "" || !errors.As(failure, &p) || ctx.Err() != nil {
		return failure
	}
	ctx, cancel := context.WithTimeout(ctx, lastLinesTime)
	defer cancel()
	lines, err := s.api.RecentLogs(ctx, s.cfg.Links.LogCache, app.GUID)
	if err != nil {
		return failure // the failure matters more than its log
	}
	var last []logLine
	for _, l := range lines {
		if l.Source != source && !strings.HasPrefix(l.Source, source+"/") || slices.Contains(everyStart, strings.TrimSpace(l.Text)) {
			continue
		}
		stream := "OUT"
		if l.Error {
			stream = "ERR"
		}
		for part := range strings.SplitSeq(strings.TrimRight(l.Text, "\r\n"), "\n") {
			last = append(last, logLine{l.Time, l.Source, l.Instance, stream, strings.TrimRight(part, "\r")})
		}
	}
	p.Log = last[max(0, len(last)-lastLines):]
	return failure
}
