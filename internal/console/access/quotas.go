package access

import (
	"net/url"
	"strconv"

	"ingot/internal/base/cfapi"
	"ingot/internal/console/page"
)

// quotaCard is the use of a quota.
type quotaCard struct {
	Title, Name string
	Paid        bool // paid services are allowed
	Rows        []quotaRow
}

type quotaRow struct {
	Label      string
	Used       int64
	Limit      string
	Limited    bool
	UsedOf     int64 // the limit
	UsageKnown bool
}

type quota struct {
	cfapi.Quota
	Domains *struct {
		Total *int64 `json:"total_domains"`
	} `json:"domains"`
}

// loadQuotas returns the quota of the organization, or of the space that the page shows, with their
// use.
func loadQuotas(c *page.Caller, d *orgData) ([]quotaCard, error) {
	title, list, place, guid := "Quota of the organization", "organization", "organizations", d.Org.GUID
	if d.Space != "" {
		title, list, place, guid = "Quota of the space", "space", "spaces", d.Space
	}
	var usage struct {
		Summary map[string]int64 `json:"usage_summary"`
	}
	var found []quota
	err := page.Together(
		func() error { return c.Get(&usage, "/v3/"+place+"/"+url.PathEscape(guid)+"/usage_summary", nil) },
		page.List(c, &found, "/v3/"+list+"_quotas", url.Values{list + "_guids": {guid}}),
	)
	if err != nil {
		return nil, err
	}
	var q quota // none
	q.Name, q.Services.Paid = "none", true
	if len(found) > 0 {
		q = found[0]
	}
	card := quotaCard{Title: title, Name: q.Name, Paid: q.Services.Paid}
	add := func(label, used string, limit *int64, unit string) {
		row := quotaRow{Label: label, Limit: "unlimited"}
		row.Used, row.UsageKnown = usage.Summary[used]
		if limit != nil {
			row.Limited, row.UsedOf, row.Limit = true, *limit, strconv.FormatInt(*limit, 10)+unit
		}
		if row.Limited || row.UsageKnown {
			card.Rows = append(card.Rows, row)
		}
	}
	add("Memory (MB)", "memory_in_mb", q.Apps.Memory, "")
	add("Memory of an instance (MB)", "", q.Apps.Process, "")
	add("Instances", "started_instances", q.Apps.Instances, "")
	add("Tasks of an app", "", q.Apps.Tasks, "")
	add("Log rate", "", q.Apps.LogRate, " B/s")
	add("Routes", "routes", q.Routes.Total, "")
	add("TCP ports", "reserved_ports", q.Routes.Ports, "")
	add("Service instances", "service_instances", q.Services.Instances, "")
	add("Service keys", "service_keys", q.Services.Keys, "")
	if q.Domains != nil {
		add("Private domains", "domains", q.Domains.Total, "")
	}
	return []quotaCard{card}, nil
}
