package e2e

import (
	"net/url"
	"strconv"
	"testing"
)

// TestHistoryByPromQL: requests and what an instance uses, also without a reader, are in the answers of
// log-cache's query language, as they are in the history that the client shows.
func TestHistoryByPromQL(t *testing.T) {
	t.Parallel()
	s := startApps(t, options{Engine: "process"})
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "busy")...)
	const requests = 25
	for range requests {
		s.get(t, "busy", "/where").want(t, 200)
	}
	var found struct {
		Resources []struct {
			GUID string `json:"guid"`
		}
	}
	s.call(t, "GET", "/v3/apps?names=busy", s.adminToken(t), nil).want(t, 200).into(t, &found)
	app := `{source_id="` + found.Resources[0].GUID + `"}`
	query := func(text string) (value string, labels map[string]string) {
		t.Helper()
		var answer struct {
			Data struct {
				Result []struct {
					Metric map[string]string `json:"metric"`
					Value  []any             `json:"value"`
				}
			}
		}
		s.call(t, "GET", "/api/v1/query?query="+url.QueryEscape(text), s.adminToken(t), nil,
			header{"Host", "log-cache.localhost"}).want(t, 200).into(t, &answer)
		if len(answer.Data.Result) != 1 {
			return "", nil
		}
		value, _ = answer.Data.Result[0].Value[1].(string)
		return value, answer.Data.Result[0].Metric
	}
	s.poll(t, "all requests are recorded", func() bool {
		value, _ := query(`sum(http_requests_total` + app + `)`)
		return value == strconv.Itoa(requests)
	})
	_, labels := query(`http_requests_total{status="2xx",` + app[1:])
	if labels["app_name"] != "busy" || labels["process_type"] != "web" || labels["instance_id"] != "" {
		t.Errorf("the requests have the labels %v, want those of the process web of busy", labels)
	}
	// Over a time that measurements for readers do not cover.
	if value, labels := query(`max_over_time(memory` + app + `[1h])`); value == "" || labels["instance_id"] != "0" {
		t.Errorf("the memory of an hour is %q of %v, want that of instance 0", value, labels)
	}
}
