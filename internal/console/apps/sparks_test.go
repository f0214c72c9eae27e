package apps

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ingot/internal/console/page"
)

// TestCharts reads the charts of an app once for as long as it is not measured again.
func TestCharts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := http.NewServeMux()
		var asked atomic.Int32
		api.HandleFunc("GET /api/v1/query_range", func(rw http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if q := r.URL.Query().Get("query"); q != `sum(cpu{source_id="the-app"})` &&
				q != `sum(memory{source_id="the-app"})` {
				t.Errorf("the query is %s", q)
			}
			fmt.Fprint(rw, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"10"],[2,"2048"]]}]}}`)
		})
		pages := &pages{Console: page.New(page.Options{Platform: api}, loaded(), nil)}
		read := func() charts {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/console/apps", nil)
			if err != nil {
				t.Fatal(err)
			}
			c, err := pages.charts(pages.Platform(r, &page.Session{UserID: "anna"}), "the-app")
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		c := read()
		if c.CPU == nil || c.CPU.Label != "CPU: now 2048.0%, at most 2048.0%" || c.Memory == nil ||
			c.Memory.Label != "Memory: now 2 KB, at most 2 KB" {
			t.Errorf("%+v, %+v", c.CPU, c.Memory)
		}
		<-time.After(sparkFor - time.Nanosecond)
		read()
		if n := asked.Load(); n != 2 {
			t.Errorf("%d queries", n)
		}
		<-time.After(time.Nanosecond)
		read()
		if n := asked.Load(); n != 4 {
			t.Errorf("%d queries after a measurement", n)
		}
	})
}
