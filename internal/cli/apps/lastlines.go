package apps

import (
	"context"
	"errors"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/crashlines"
	"ingot/internal/cli/core"
)

// lastLinesTime is how long reading the log lines of a failure, or the end of a job's log,
// may take.
const lastLinesTime = 20 * time.Second

// WithLog adds the log lines since the last start of the app or build to a failure, because
// they usually name the cause. source is a prefix of the sources to include.
func WithLog(ctx context.Context, s *core.Session, app cfapi.App, source string, failure error) error {
	var p *core.Problem
	if s.Config.Links.LogCache == "" || !errors.As(failure, &p) || ctx.Err() != nil {
		return failure
	}
	ctx, cancel := context.WithTimeout(ctx, lastLinesTime)
	defer cancel()
	lines, err := s.API.RecentLogs(ctx, s.Config.Links.LogCache, app.GUID)
	if err != nil {
		return failure // the failure matters more than its log
	}
	var last []core.LogLine
	for _, l := range lines {
		if l.Source != source && !strings.HasPrefix(l.Source, source+"/") {
			continue
		}
		stream := "OUT"
		if l.Error {
			stream = "ERR"
		}
		for part := range strings.SplitSeq(strings.TrimRight(l.Text, "\r\n"), "\n") {
			last = append(last, core.LogLine{Time: l.Time, Source: l.Source, Instance: l.Instance, Stream: stream,
				Text: strings.TrimRight(part, "\r")})
		}
	}
	p.Log, p.Cause = explainingLines(last)
	return failure
}

// explainingLines returns the lines of the last life of the instance that wrote last, and the
// one among them that names the error, if it is recognised.
func explainingLines(all []core.LogLine) ([]core.LogLine, string) {
	var texts []string
	one := all[:0:0]
	for _, l := range all {
		if l.Instance == all[len(all)-1].Instance {
			one, texts = append(one, l), append(texts, l.Text)
		}
	}
	begin, end, cause := crashlines.Explain(texts)
	return one[begin:end], cause
}
