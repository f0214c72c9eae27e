package promql

import (
	"math"
	"time"
)

// functions are the known functions; true if they take a range.
var functions = func() map[string]bool {
	all := map[string]bool{}
	for name := range plain {
		all[name] = false
	}
	for name := range ranged {
		all[name] = true
	}
	return all
}()

var plain = map[string]func(float64) float64{
	"abs": math.Abs, "ceil": math.Ceil, "floor": math.Floor,
	"round": func(x float64) float64 { return math.Floor(x + 0.5) },
	"sqrt":  math.Sqrt, "ln": math.Log, "log2": math.Log2, "log10": math.Log10, "exp": math.Exp,
}

// ranged are functions of the samples of a range; false means that there is no result.
var ranged = map[string]func(in []Sample, span time.Duration) (float64, bool){
	"avg_over_time": over("avg"), "min_over_time": over("min"), "max_over_time": over("max"),
	"sum_over_time": over("sum"), "count_over_time": over("count"),
	"last_over_time": func(in []Sample, _ time.Duration) (float64, bool) {
		if len(in) == 0 {
			return 0, false
		}
		return in[len(in)-1].Value, true
	},
	"delta": func(in []Sample, span time.Duration) (float64, bool) {
		if len(in) < 2 {
			return 0, false
		}
		return (in[len(in)-1].Value - in[0].Value) * stretch(in, span), true
	},
	"increase": increase,
	"rate": func(in []Sample, span time.Duration) (float64, bool) {
		v, ok := increase(in, span)
		return v / span.Seconds(), ok
	},
	"irate": func(in []Sample, _ time.Duration) (float64, bool) {
		if len(in) < 2 {
			return 0, false
		}
		a, b := in[len(in)-2], in[len(in)-1]
		if b.Value < a.Value {
			a.Value = 0 // the counter was reset
		}
		return (b.Value - a.Value) / b.Time.Sub(a.Time).Seconds(), b.Time.After(a.Time)
	},
}

func over(how string) func([]Sample, time.Duration) (float64, bool) {
	return func(in []Sample, _ time.Duration) (float64, bool) {
		if len(in) == 0 {
			return 0, false
		}
		values := make([]float64, len(in))
		for i, s := range in {
			values[i] = s.Value
		}
		return combine(how, values), true
	}
}

// stretch is by how much the change between the first and the last sample is extended to
// the whole range.
func stretch(in []Sample, span time.Duration) float64 {
	covered := in[len(in)-1].Time.Sub(in[0].Time)
	if covered <= 0 {
		return 1
	}
	return span.Seconds() / covered.Seconds()
}

// increase is that of a counter, which may have been reset.
func increase(in []Sample, span time.Duration) (float64, bool) {
	if len(in) < 2 {
		return 0, false
	}
	sum := 0.0
	for i := 1; i < len(in); i++ {
		step := in[i].Value - in[i-1].Value
		if step < 0 {
			step = in[i].Value
		}
		sum += step
	}
	return sum * stretch(in, span), true
}
