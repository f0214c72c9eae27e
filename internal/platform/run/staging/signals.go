package staging

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/tracing"
)

// phase runs a part of a build as a span.
func phase(ctx context.Context, name string, f func(context.Context) error) error {
	ctx, span := tracing.Begin(ctx, name, tracing.Internal)
	defer span.End()
	err := f(ctx)
	span.FailWhen(err != nil, reasonOf(err))
	return err
}

// endBuild ends the span of a build, which one that was interrupted by a restart of the
// server has too.
func endBuild(ctx context.Context, span *tracing.Span, err error) {
	if err != nil {
		span.FailWhen(true, resultOf(ctx, err)+": "+reasonOf(err))
	}
	span.End()
}

// reasonOf returns why a build failed, as its user sees it: other errors may contain what
// only the operator's log may have.
func reasonOf(err error) string {
	var failure *Failure
	if errors.As(err, &failure) {
		return failure.Reason
	}
	return "see the server's log"
}

// Results of builds.
const (
	resultStaged      = "staged"
	resultFailed      = "failed"
	resultInterrupted = "interrupted"
	resultError       = "error"
)

func resultOf(ctx context.Context, err error) string {
	var failure *Failure
	switch {
	case err == nil:
		return resultStaged
	case ctx.Err() != nil, errors.Is(err, ErrInterrupted), errors.Is(err, errNotWanted):
		return resultInterrupted
	case errors.As(err, &failure):
		return resultFailed
	}
	return resultError
}

// Metrics counts builds. A nil *Metrics counts nothing.
type Metrics struct{ duration *prometheus.HistogramVec }

// NewMetrics registers the metrics of builds.
func NewMetrics(r prometheus.Registerer, s *Stager) *Metrics {
	m := &Metrics{duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ingot_staging_duration_seconds",
		Help: "Time of builds, including the wait for others, by result: staged, failed (because of the app), error " +
			"(because of the platform), interrupted (cancelled, or continued by another server or after a restart).",
		Buckets: []float64{1, 2.5, 5, 10, 30, 60, 120, 300, 900},
	}, []string{"result"})}
	for _, result := range []string{resultStaged, resultFailed, resultInterrupted, resultError} {
		m.duration.WithLabelValues(result)
	}
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(value()) })
	}
	r.MustRegister(m.duration,
		gauge("ingot_staging_builds_running", "Builds that have one of the server's places for builds.",
			func() int { return len(s.slots) }),
		gauge("ingot_staging_builds_waiting", "Builds that wait for others to end.",
			func() int { return int(s.waiting.Load()) }),
		gauge("ingot_staging_builds_max", "Builds that may run at the same time.", func() int { return cap(s.slots) }),
	)
	return m
}

func (m *Metrics) ended(ctx context.Context, err error, d time.Duration) {
	if m != nil {
		m.duration.WithLabelValues(resultOf(ctx, err)).Observe(d.Seconds())
	}
}
