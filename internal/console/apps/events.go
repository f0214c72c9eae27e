package apps

import (
	"net/http"
	"net/url"
	"strconv"

	"ingot/internal/base/cfapi"
	"ingot/internal/console/page"
)

// eventsShown is how many events the page of an app lists.
const eventsShown = 100

type eventsData struct {
	Events  []cfapi.Event
	Newest  int // how many are listed, if there may be more
	Command string
}

// loadEvents is GET /console/apps/GUID/events.
func loadEvents(_ *http.Request, call *page.Caller, d *Data) (any, error) {
	data := &eventsData{Command: page.Command("cf", "events", d.App.Name)}
	var err error
	data.Events, err = page.All[cfapi.Event](call, "/v3/audit_events", url.Values{"target_guids": {d.App.GUID},
		"order_by": {"-created_at"}, "per_page": {strconv.Itoa(eventsShown)}})
	if len(data.Events) == eventsShown {
		data.Newest = eventsShown
	}
	return data, err
}
