package apps

import (
	"net/http"
	"time"

	"ingot/internal/base/web"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/series"
)

// platformSeriesBody is what the platform did: all apps together, messages, and builds.
type platformSeriesBody struct {
	Range  string                `json:"range"`
	Start  string                `json:"start"`
	End    string                `json:"end"`
	Step   int64                 `json:"step"`
	Series map[string][]*float64 `json:"series"`
	Links  rest.Links            `json:"links"`
}

var messageFields = []seriesField{
	{"messages_queued", series.Queued, true, 1}, {"messages_delivered", series.Delivered, true, 1},
	{"messages_failed", series.Failed, true, 1}, {"messages_undeliverable", series.Undeliverable, true, 1},
	{"messages_unsubscribed", series.Unsubscribed, true, 1}, {"messages_retried", series.Retried, true, 1},
	{"messages_waiting", series.Waiting, false, 1},
}

var buildFields = []seriesField{
	{"builds_staged", series.Staged, false, 1}, {"builds_failed", series.BuildFailed, false, 1},
	{"builds_error", series.BuildError, false, 1}, {"builds_running", series.Building, false, 1},
	{"builds_waiting", series.Waiting, false, 1},
}

// platformSeries shows what the platform did in the last hour, day, week or 30 days.
func (a *API) platformSeries(w http.ResponseWriter, r *http.Request) error {
	q, err := readSeriesQuery(r)
	if err != nil {
		return err
	}
	if q.process != "" || q.instance >= 0 {
		return listing.BadQuery("The platform has no processes. Valid parameters are: 'range', 'points'")
	}
	now := time.Now()
	from, to := q.in.Window(now.Unix())
	history := series.Merge(nil, from, to, q.in.Step)
	if a.Series != nil {
		if history, err = a.Series.History(r.Context(), series.Platform, q.in, now); err != nil {
			return err
		}
	}
	// Each server measures the instances it runs and the builds it does. All see the same queue of messages.
	sum := q.coarser(history.Sum(""))
	body := platformSeriesBody{Range: q.in.Name, Start: rest.Timestamp(time.Unix(sum.Start, 0)),
		End: rest.Timestamp(time.Unix(to, 0)), Step: sum.Step, Series: presentSeries(sum),
		Links: rest.Links{"self": rest.Href(rest.BaseURL(r), r.URL.Path)}}
	addSeries(body.Series, q.coarser(history.Points(series.Messages)), messageFields)
	addSeries(body.Series, q.coarser(history.Sum(series.Builds)), buildFields)
	return web.Answer(w, http.StatusOK, body, nil)
}
