package main

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Result is the result of one round.
type Result struct {
	PerSecond float64
	// Latencies are sorted; empty where only the rate is measured.
	Latencies []time.Duration
	// Server and Load are the processor time per request of the measured server
	// and of this program; 0 if not known.
	Server, Load time.Duration
}

// Contender is something whose rate is measured.
type Contender func(ctx context.Context) (Result, error)

// bestOf runs the contenders in turn, and returns the best round of each.
func bestOf(ctx context.Context, rounds int, contenders ...Contender) ([]Result, error) {
	best := make([]Result, len(contenders))
	for range rounds {
		for i, c := range contenders {
			got, err := c(ctx)
			if err != nil {
				return nil, err
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if got.PerSecond > best[i].PerSecond {
				best[i] = got
			}
		}
	}
	return best, nil
}

// bare measures the rate at which the given number of goroutines can call op.
func bare(goroutines int, d time.Duration, op func() error) Contender {
	return func(context.Context) (Result, error) {
		counts, errs := make([]int, goroutines), make([]error, goroutines)
		var all sync.WaitGroup
		began := time.Now()
		deadline := began.Add(d)
		for i := range goroutines {
			all.Go(func() {
				n := 0
				for time.Now().Before(deadline) && errs[i] == nil {
					errs[i] = op()
					n++
				}
				counts[i] = n
			})
		}
		all.Wait()
		took := time.Since(began)
		total := 0
		for i, n := range counts {
			if errs[i] != nil {
				return Result{}, errs[i]
			}
			total += n
		}
		return Result{PerSecond: float64(total) / took.Seconds()}, nil
	}
}

// percentile returns a percentile of sorted values; p is between 0 and 1.
func percentile[T any](sorted []T, p float64) T {
	var none T
	if len(sorted) == 0 {
		return none
	}
	i := int(p * float64(len(sorted)))
	return sorted[min(i, len(sorted)-1)]
}

// medianAndWorst returns the median and the maximum of durations, in
// milliseconds.
func medianAndWorst(values []time.Duration) (median, worst float64) {
	sorted := slices.Sorted(slices.Values(values))
	return millis(percentile(sorted, 0.5)), millis(percentile(sorted, 1))
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// pause waits for d or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
