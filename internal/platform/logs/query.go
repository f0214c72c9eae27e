package logs

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"ingot/internal/base/web"
	"ingot/internal/platform/logs/promql"
)

// queryFor limits the time of a query.
const queryFor = 10 * time.Second

// promError writes an error in Prometheus' format.
func promError(w http.ResponseWriter, kind string, err error) error {
	status := http.StatusBadRequest
	if kind != "bad_data" {
		status = http.StatusInternalServerError
	}
	web.WriteJSON(w, status, map[string]string{"status": "error", "errorType": kind, "error": err.Error()})
	return nil
}

// query evaluates a query at a time.
func (a *api) query(w http.ResponseWriter, r *http.Request) error {
	q, ok, err := a.parseQuery(w, r)
	if !ok {
		return err
	}
	at, err := parseTime(r.URL.Query().Get("time"), time.Now())
	if err != nil {
		return promError(w, "bad_data", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryFor)
	defer cancel()
	result, scalar, err := q.Instant(ctx, a.options.History, at)
	if errors.Is(err, promql.ErrTooMuch) {
		return promError(w, "bad_data", err)
	}
	if err != nil {
		return promError(w, "execution", err)
	}
	if scalar {
		return promResult(w, "scalar", point(result[0].Samples[0]))
	}
	vector := []any{}
	for _, s := range result {
		vector = append(vector, map[string]any{"metric": s.Labels, "value": point(s.Samples[0])})
	}
	return promResult(w, "vector", vector)
}

// queryRange evaluates a query at the steps of a range.
func (a *api) queryRange(w http.ResponseWriter, r *http.Request) error {
	q, ok, err := a.parseQuery(w, r)
	if !ok {
		return err
	}
	now := time.Now()
	from, err1 := parseTime(r.URL.Query().Get("start"), now)
	to, err2 := parseTime(r.URL.Query().Get("end"), now)
	step, err3 := promql.ParseStep(r.URL.Query().Get("step"))
	if err := errors.Join(err1, err2, err3); err != nil {
		return promError(w, "bad_data", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryFor)
	defer cancel()
	result, err := q.Range(ctx, a.options.History, from, to, step)
	if err != nil {
		return promError(w, "bad_data", err)
	}
	matrix := []any{}
	for _, s := range result {
		values := make([]any, len(s.Samples))
		for i, one := range s.Samples {
			values[i] = point(one)
		}
		matrix = append(matrix, map[string]any{"metric": s.Labels, "values": values})
	}
	return promResult(w, "matrix", matrix)
}

// parseQuery parses the query of a request and checks that the caller may read all its
// sources. If not ok, the response has been written, unless there is an error.
func (a *api) parseQuery(w http.ResponseWriter, r *http.Request) (q *promql.Query, ok bool, err error) {
	q, err = promql.Parse(r.URL.Query().Get("query"))
	if err != nil {
		return nil, false, promError(w, "bad_data", err)
	}
	if may, err := a.mayStream(r.Context(), q.Sources()); err != nil || !may {
		if err == nil {
			w.WriteHeader(http.StatusNotFound) // as for a source that does not exist
		}
		return nil, false, err
	}
	for _, app := range q.Sources() { // before "now", which the caller asks for
		if err := a.options.History.watch(r.Context(), app); err != nil {
			return nil, false, err
		}
	}
	return q, true, nil
}

// parseTime parses seconds with decimals, nanoseconds as log-cache's client sends them, or
// RFC 3339.
func parseTime(text string, otherwise time.Time) (time.Time, error) {
	if text == "" {
		return otherwise, nil
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(seconds) && math.Abs(seconds) < 1e11 {
		whole, part := math.Modf(seconds)
		return time.Unix(int64(whole), int64(part*1e9)), nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	return time.Time{}, errors.New("cannot parse " + strconv.Quote(text) + " to a valid timestamp")
}

func promResult(w http.ResponseWriter, kind string, result any) error {
	web.WriteJSON(w, http.StatusOK, map[string]any{"status": "success", "data": map[string]any{"resultType": kind,
		"result": result}})
	return nil
}

// point is a sample in Prometheus' format: seconds, and the value as a text.
func point(s promql.Sample) [2]any {
	at := json.Number(strconv.FormatFloat(float64(s.Time.UnixMilli())/1000, 'f', 3, 64))
	return [2]any{at, strconv.FormatFloat(s.Value, 'f', -1, 64)}
}
