package services

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// parametersOf parses the value of a -c flag: JSON, or the path of a JSON file.
func parametersOf(s *core.Session, flag string) (map[string]any, error) {
	if flag == "" {
		return nil, nil //nolint:nilnil // none were given
	}
	return s.JSONObject("-c", flag)
}

// tags splits the value of a -t flag.
func tags(flag string) []string {
	var all []string
	for t := range strings.SplitSeq(flag, ",") {
		if t = strings.TrimSpace(t); t != "" {
			all = append(all, t)
		}
	}
	return all
}

// marketplace

type offeringRow struct {
	Offering    string    `json:"offering"`
	Description string    `json:"description"`
	Broker      string    `json:"broker"`
	Plans       []planRow `json:"plans"`
}

type planRow struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Free        bool   `json:"free"`
	Available   bool   `json:"available"`
}

type market struct {
	Offerings []offeringRow `json:"offerings"`
	detail    bool
}

func (m *market) Show(p *term.Printer) {
	if len(m.Offerings) == 0 {
		p.Println("No service offerings found.")
		return
	}
	p.Println("")
	if m.detail {
		for _, o := range m.Offerings {
			p.Println("broker: " + o.Broker)
			t := term.Table{Heading: []string{"plan", "description", "free or paid"}}
			for _, pl := range o.Plans {
				t.Rows = append(t.Rows, term.Cells(pl.Name, pl.Description, map[bool]string{true: "free", false: "paid"}[pl.Free]))
			}
			p.Table(t)
		}
		return
	}
	t := term.Table{Heading: []string{"offering", "plans", "description", "broker"}}
	for _, o := range m.Offerings {
		var plans []string
		for _, pl := range o.Plans {
			plans = append(plans, pl.Name)
		}
		t.Rows = append(t.Rows, []term.Cell{{Text: o.Offering, Paint: p.Bold}, {Text: strings.Join(plans, ", ")},
			{Text: o.Description}, {Text: o.Broker}})
	}
	p.Table(t)
	p.Println("")
	p.Println("TIP: Use 'marketplace -e OFFERING' to show the plans of an offering.")
}

type marketplaceFlags struct {
	Offering string `short:"e" value-name:"OFFERING" description:"Show the plans of an offering"`
}

func showMarketplace(ctx context.Context, s *core.Session, _ core.Words, f *marketplaceFlags) (core.Result, error) {
	s.Doing("Getting all service offerings from marketplace")
	q := s.InSpace("include", "service_offering", "fields[service_offering.service_broker]", "name,guid", "per_page",
		"5000", "available", "true")
	cfapi.Filter(q, "service_offering_names", f.Offering)
	plans, included, err := client.ListWith[cfapi.Plan](ctx, s.API, "/v3/service_plans", q)
	if err != nil {
		return nil, core.NoServices(s, err)
	}
	offerings := client.Of[cfapi.Offering](included, "service_offerings")
	brokers := client.Of[cfapi.Thing](included, "service_brokers")
	m := &market{Offerings: []offeringRow{}, detail: f.Offering != ""}
	at := map[string]int{}
	for _, pl := range plans {
		guid := pl.Relationships.Offering.GUID()
		i, ok := at[guid]
		if !ok {
			o := offerings[guid]
			i, at[guid] = len(m.Offerings), len(m.Offerings)
			m.Offerings = append(m.Offerings, offeringRow{o.Name, o.Description, brokers[o.Relationships.Broker.GUID()].Name,
				nil})
		}
		m.Offerings[i].Plans = append(m.Offerings[i].Plans, planRow{pl.Name, pl.Description, pl.Free, pl.Available})
	}
	slices.SortFunc(m.Offerings, func(a, b offeringRow) int { return strings.Compare(a.Offering, b.Offering) })
	if f.Offering != "" && len(m.Offerings) == 0 {
		if _, err := core.Named[cfapi.Offering](ctx, s, "Service offering", "/v3/service_offerings", f.Offering,
			nil); err != nil {
			return nil, err
		}
		return nil, &core.Problem{What: "Service offering '" + f.Offering + "' has no plan for this space.",
			Try: fmt.Sprintf("'%s marketplace' lists the available ones", s.Env.Program)}
	}
	return m, nil
}

// services

type serviceRow struct {
	Name      string   `json:"name"`
	GUID      string   `json:"guid"`
	Offering  string   `json:"offering"`
	Plan      string   `json:"plan"`
	Broker    string   `json:"broker"`
	Apps      []string `json:"bound_apps"`
	Operation string   `json:"last_operation"`
	Message   string   `json:"message,omitempty"`
	Dashboard string   `json:"dashboard_url,omitempty"`
	Tags      []string `json:"tags"`
}

func (i *serviceRow) Show(p *term.Printer) {
	p.Println("")
	p.Pairs(
		[2]string{"name", p.Bold(i.Name)}, [2]string{"guid", i.GUID}, [2]string{"offering", i.Offering},
		[2]string{"plan", i.Plan}, [2]string{"broker", i.Broker},
		[2]string{"tags", strings.Join(i.Tags, ", ")}, [2]string{"bound apps", strings.Join(i.Apps, ", ")},
		[2]string{"dashboard", i.Dashboard},
		[2]string{"status", i.Operation}, [2]string{"message", i.Message},
	)
}

// serviceRows returns service instances with their plans and bound apps.
func serviceRows(ctx context.Context, s *core.Session, q url.Values) ([]serviceRow, error) {
	q.Set("fields[service_plan]", "guid,name,relationships.service_offering")
	q.Set("fields[service_plan.service_offering]", "guid,name,relationships.service_broker")
	q.Set("fields[service_plan.service_offering.service_broker]", "guid,name")
	found, included, err := client.ListWith[cfapi.ServiceInstance](ctx, s.API, "/v3/service_instances", q)
	if err != nil {
		return nil, core.NoServices(s, err)
	}
	plans, offerings := client.Of[cfapi.Plan](included, "service_plans"),
		client.Of[cfapi.Offering](included, "service_offerings")
	brokers := client.Of[cfapi.Thing](included, "service_brokers")
	rows := []serviceRow{}
	var guids []string
	for _, i := range found {
		pl := plans[i.Relationships.Plan.GUID()]
		o := offerings[pl.Relationships.Offering.GUID()]
		last := cmp.Or(i.Last, &cfapi.Operation{})
		row := serviceRow{
			Name: i.Name, GUID: i.GUID, Offering: o.Name, Plan: pl.Name, Broker: brokers[o.Relationships.Broker.GUID()].Name,
			Apps:      []string{},
			Operation: strings.TrimSpace(last.Type + " " + last.State),
			Message:   last.Description, Dashboard: i.DashboardURL, Tags: i.Tags,
		}
		if i.Type == "user-provided" {
			row.Offering = "user-provided"
		}
		rows, guids = append(rows, row), append(guids, i.GUID)
	}
	if len(guids) == 0 {
		return rows, nil
	}
	bindings, included, err := client.ListWith[cfapi.Binding](ctx, s.API, "/v3/service_credential_bindings",
		url.Values{"include": {"app"}, "service_instance_guids": {strings.Join(guids, ",")}, "per_page": {"5000"}})
	if err != nil {
		return nil, err
	}
	apps := client.Of[cfapi.App](included, "apps")
	for _, b := range bindings {
		i := slices.Index(guids, b.Relationships.Instance.GUID())
		if name := apps[b.Relationships.App.GUID()].Name; i >= 0 && name != "" {
			rows[i].Apps = append(rows[i].Apps, name)
		}
	}
	return rows, nil
}

func listServices(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Doing("Getting service instances")
	rows, err := serviceRows(ctx, s, s.InSpace("order_by", "name", "per_page", "5000"))
	if err != nil {
		return nil, err
	}
	return &core.Listing[serviceRow]{
		Key: "services", Rows: rows, None: "No service instances found.",
		Heading: []string{"name", "offering", "plan", "bound apps", "last operation", "broker"},
		Cells: func(i serviceRow) []string {
			return []string{i.Name, i.Offering, i.Plan, strings.Join(i.Apps, ", "), i.Operation, i.Broker}
		},
	}, nil
}

func showService(ctx context.Context, s *core.Session, w core.Words, f *core.GUIDFlag) (core.Result, error) {
	if !f.GUID {
		s.Doing("Showing info of service instance %s", w["SERVICE"])
	}
	rows, err := serviceRows(ctx, s, s.InSpace("names", w["SERVICE"]))
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		_, err := s.ServiceInstance(ctx, w["SERVICE"]) // lists the existing ones
		return nil, err
	}
	if f.GUID {
		return &core.Text{Key: "guid", Value: rows[0].GUID}, nil
	}
	return &rows[0], nil
}

// create-service

type createServiceFlags struct {
	Broker     string `short:"b" value-name:"BROKER" description:"Broker to use when several offer this service"`
	Parameters string `short:"c" value-name:"JSON" description:"Broker parameters: JSON, or a path to a JSON file"`
	Tags       string `short:"t" value-name:"TAGS" description:"Comma-separated tags"`
	Wait       bool   `long:"wait" description:"Wait for the operation to complete"`
}

// operation is an operation of a service broker.
type operation struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	InProgress bool   `json:"in_progress"`
	Existed    bool   `json:"existed"`
}

func (*operation) Show(*term.Printer) {}

func createService(ctx context.Context, s *core.Session, w core.Words, f *createServiceFlags) (core.Result, error) {
	parameters, err := parametersOf(s, f.Parameters)
	if err != nil {
		return nil, err
	}
	s.Doing("Creating service instance %s", w["SERVICE"])
	q := url.Values{"names": {w["PLAN"]}, "service_offering_names": {w["OFFERING"]}}
	cfapi.Filter(q, "service_broker_names", f.Broker)
	plans, err := client.List[cfapi.Plan](ctx, s.API, "/v3/service_plans", q)
	if err != nil {
		return nil, core.NoServices(s, err)
	}
	switch {
	case len(plans) == 0:
		return nil, noPlan(ctx, s, w["OFFERING"], w["PLAN"], f.Broker)
	case len(plans) > 1:
		return nil, &core.Problem{What: fmt.Sprintf("Several brokers have the offering %s.", w["OFFERING"]),
			Try: "name one with -b"}
	}
	if !plans[0].Free {
		s.Say("%s", s.Out.Warn(fmt.Sprintf("Attention: The plan %s of the offering %s is not free. This plan may incur "+
			"charges.", w["PLAN"], w["OFFERING"])))
	}
	body := map[string]any{
		"type": "managed", "name": w["SERVICE"],
		"relationships": map[string]any{"space": cfapi.Relate(s.Config.Space.GUID),
			"service_plan": cfapi.Relate(plans[0].GUID)},
	}
	cfapi.Add(body, "parameters", parameters, "tags", tags(f.Tags))
	reply, err := s.API.Post(ctx, "/v3/service_instances", body, nil)
	if client.Says(err, "name is taken") {
		s.Say("Service instance %s already exists.", w["SERVICE"])
		s.OK()
		return &operation{"service", w["SERVICE"], false, true}, nil
	}
	if err != nil {
		return nil, err
	}
	return operate(ctx, s, reply, f.Wait, "service", w["SERVICE"], "Create of service instance "+w["SERVICE"])
}

// noPlan returns an error if the offering, or its plan, does not exist, with those that do.
func noPlan(ctx context.Context, s *core.Session, offering, plan, broker string) error {
	q := url.Values{}
	cfapi.Filter(q, "service_broker_names", broker)
	if _, err := core.Named[cfapi.Offering](ctx, s, "Service offering", "/v3/service_offerings", offering, q); err != nil {
		return err
	}
	q.Set("service_offering_names", offering)
	_, err := core.Named[cfapi.Plan](ctx, s, "Plan", "/v3/service_plans", plan, q)
	var p *core.Problem
	if errors.As(err, &p) {
		p.What = fmt.Sprintf("Plan '%s' of the service offering '%s' not found.", plan, offering)
		p.Existing = strings.Replace(p.Existing, "Existing plans", "Plans of "+offering, 1)
	}
	if err == nil { // created meanwhile
		err = &core.Problem{What: fmt.Sprintf("Plan '%s' of the service offering '%s' not found.", plan, offering),
			Try: fmt.Sprintf("'%s marketplace -e %s'", s.Env.Program, offering)}
	}
	return err
}

// operate waits until the broker has finished, or without wait until it has
// started.
func operate(ctx context.Context, s *core.Session, reply *client.Reply, wait bool, kind, name,
	what string) (core.Result, error) {
	job := s.API.JobStarted
	if wait {
		s.Say("Waiting for the operation to complete...")
		job = s.API.Job
	}
	s.Progress.Step(what, 0)
	err := job(ctx, reply)
	if errors.Is(err, client.ErrInProgress) {
		s.Say("%s in progress. '%[2]s services' or '%[2]s service NAME' shows its status.", what, s.Env.Program)
		s.OK()
		return &operation{kind, name, true, false}, nil
	}
	if err != nil {
		return nil, err
	}
	s.OK()
	return &operation{kind, name, false, false}, nil
}

// start begins an operation of the broker, see operate.
func start(
	ctx context.Context, s *core.Session, method, path string, body any, wait bool, kind, name, what string,
) (core.Result, error) {
	reply, err := s.API.Do(ctx, client.Call{Method: method, URL: path, Body: body})
	if err != nil {
		return nil, err
	}
	return operate(ctx, s, reply, wait, kind, name, what)
}

type deleteServiceFlags struct {
	Force bool `short:"f" description:"Do not ask for confirmation"`
	Wait  bool `long:"wait" description:"Wait for the operation to complete"`
}

func deleteService(ctx context.Context, s *core.Session, w core.Words, f *deleteServiceFlags) (core.Result, error) {
	if err := s.Confirm(ctx, f.Force, "Really delete the service instance "+w["SERVICE"]+" and its data"); err != nil {
		return nil, err
	}
	s.Doing("Deleting service instance %s", w["SERVICE"])
	i, err := s.ServiceInstance(ctx, w["SERVICE"])
	if core.IsNotFound(err) {
		return s.Absent("Service instance", "service", w["SERVICE"])
	}
	if err != nil {
		return nil, core.NoServices(s, err)
	}
	return start(ctx, s, http.MethodDelete, "/v3/service_instances/"+i.GUID, nil,
		f.Wait, "service", i.Name, "Delete of service instance "+i.Name)
}

func servicesCommands() []*core.Command {
	return core.InGroup(core.GroupServices,
		core.Entry("marketplace", "[-e OFFERING]", "List available service offerings", core.NeedsSpace, showMarketplace,
			"", "-e postgres").Alias("m"),
		core.Entry("services", "", "List the service instances in the target space", core.NeedsSpace, listServices,
			"").Alias("s"),
		core.Entry("service", "SERVICE", "Show a service instance", core.NeedsSpace, showService, "my-db"),
		core.Entry("create-service", "OFFERING PLAN SERVICE [-c JSON] [-t TAGS] [--wait]", "Create a service instance",
			core.NeedsSpace, createService,
			"postgres small my-db --wait").Alias("cs").Slow(),
		core.Entry("delete-service", "SERVICE [-f] [--wait]", "Delete a service instance", core.NeedsSpace, deleteService,
			"my-db -f --wait").Alias("ds").Slow(),
	)
}
