package apps

import (
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

// summaryBody is what a list of many apps shows of each. Cloud Foundry has no such list: a
// client has to read all apps and all processes, with everything that belongs to them.
type summaryBody struct {
	GUID      string            `json:"guid"`
	Name      string            `json:"name"`
	State     platform.AppState `json:"state"`
	Space     string            `json:"space_guid"`
	Instances summaryInstances  `json:"instances"`
}

// summaryInstances counts the instances of all processes. Those of a stopped app are 0.
type summaryInstances struct {
	Desired int `json:"desired"`
	Running int `json:"running"`
	Crashed int `json:"crashed"`
}

var appSummaries = rest.Resource[platform.App, summaryBody]{
	Noun: "App", Repo: platform.Tx.Apps, Present: Summaries, WithoutSecrets: true,
	List: listing.Params{Filters: Apps.List.Filters, Orders: Apps.List.Orders},
}

// Summaries presents apps and counts their instances.
func Summaries(req *rest.Request, items []*platform.App) ([]summaryBody, error) {
	started := map[string]*summaryInstances{}
	out := make([]summaryBody, len(items))
	var guids []string
	for i, app := range items {
		out[i] = summaryBody{GUID: app.GUID, Name: app.Name, State: app.State, Space: app.SpaceGUID}
		if app.State == platform.AppStarted {
			started[app.GUID] = &out[i].Instances
			guids = append(guids, app.GUID)
		}
	}
	if len(guids) == 0 {
		return out, nil
	}
	processes, _, err := req.Tx.Processes().
		List(platform.Query{Where: []platform.Cond{platform.InStrings("app_guid", guids)}, WithoutSecrets: true})
	if err != nil {
		return nil, err
	}
	rows, err := actions.InstancesOf(req.Tx, processes)
	if err != nil {
		return nil, err
	}
	for _, process := range processes {
		count := started[process.AppGUID]
		count.Desired += process.Instances
		for _, row := range rows[process.GUID] {
			switch {
			case row == nil:
			case row.State == platform.InstanceRunning:
				count.Running++
			case row.State == platform.InstanceCrashed:
				count.Crashed++
			}
		}
	}
	return out, nil
}
