package broker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"code.cloudfoundry.org/brokerapi/v13/domain"
)

// The names of the offerings.
const (
	Postgres      = "postgres"
	MySQL         = "mysql"
	Redis         = "redis"
	Notifications = "notifications"
)

// plan is a plan of an offering. Its id never changes: platforms store it.
type plan struct {
	id, name    string
	free        bool
	usd         float64 // a month
	connections int
	bytes       int64
	memory      int64    // of a server that Ingot runs for one instance, with all its processes
	cores       float64  // the same, of processors
	writes      int64    // the same, of bytes written to its disk in a second
	bullets     []string // shown instead of connections and bytes
	authorities []string // of OAuth clients
}

// offering is a service offering. It is in the catalog if it has a server.
type offering struct {
	id, name, title string
	description     string
	long            string
	tags            []string
	plans           []plan
	// create are the parameters of a new instance, as properties of a schema.
	create map[string]any
}

const (
	mib = 1 << 20
	gib = 1 << 30
)

var offerings = []offering{
	{
		id: "5a1d9c52-3c5e-4a58-9d8a-6f2b1c0e7a01", name: Postgres, title: "PostgreSQL",
		description: "PostgreSQL databases",
		long: "A dedicated PostgreSQL server with one database. Each binding is a separate user; all users of an " +
			"instance own what one of them creates.",
		tags: []string{"postgres", "postgresql", "relational", "sql", "database"},
		plans: []plan{
			{id: "5a1d9c52-3c5e-4a58-9d8a-6f2b1c0e7a11", name: "small", free: true, connections: 20, bytes: gib,
				memory: 256 * mib, cores: 1, writes: 20 * mib},
			{id: "5a1d9c52-3c5e-4a58-9d8a-6f2b1c0e7a12", name: "large", usd: 10, connections: 100, bytes: 20 * gib, memory: gib,
				cores: 2, writes: 50 * mib},
		},
		create: map[string]any{"extensions": map[string]any{
			"type": "array", "uniqueItems": true, "description": "Extensions to create in the new database",
			"items": map[string]any{"type": "string", "enum": extensions},
		}},
	},
	{
		id: "5a1d9c52-3c5e-4a58-9d8a-6f2b1c0e7a02", name: MySQL, title: "MySQL (MariaDB)",
		description: "MySQL databases, served by MariaDB",
		long: "A dedicated MariaDB server, which speaks MySQL's protocol, with one database. Each binding is a " +
			"separate user with all rights on that database.",
		tags: []string{"mysql", "mariadb", "relational", "sql", "database"},
		plans: []plan{
			{id: "5a1d9c52-3c5e-4a58-9d8a-6f2b1c0e7a21", name: "small", free: true, connections: 20, bytes: gib,
				memory: 384 * mib, cores: 1, writes: 20 * mib},
		},
		create: map[string]any{"character_set": map[string]any{
			"type": "string", "enum": characterSets, "default": characterSets[0],
			"description": "The character set of new tables",
		}},
	},
	{
		id: "5a1d9c52-3c5e-4a58-9d8a-6f2b1c0e7a03", name: Redis, title: "Redis",
		description: "Redis servers",
		long:        "A dedicated Redis server. Each binding is a separate user with all rights except administration.",
		tags:        []string{"redis", "key-value", "cache", "nosql"},
		plans: []plan{
			{id: "5a1d9c52-3c5e-4a58-9d8a-6f2b1c0e7a31", name: "small", free: true, connections: 100, bytes: 64 * mib,
				memory: 256 * mib, cores: 1},
		},
		create: map[string]any{"maxmemory_policy": map[string]any{
			"type": "string", "enum": evictions, "default": evictions[0],
			"description": "What Redis does when its memory is full",
		}},
	},
	{
		id: "5a1d9c52-3c5e-4a58-9d8a-6f2b1c0e7a04", name: Notifications, title: "Notifications",
		description: "Notifications to users, by mail",
		long: "The notification service of this platform. Each binding is a separate OAuth client, which is " +
			"deleted with the binding.",
		tags: []string{"notifications", "mail", "email"},
		plans: []plan{
			{
				id: "5a1d9c52-3c5e-4a58-9d8a-6f2b1c0e7a41", name: "default", free: true, authorities: senderAuthorities,
				bullets: []string{"register and send notifications", "own templates"},
			},
			{
				id: "5a1d9c52-3c5e-4a58-9d8a-6f2b1c0e7a42", name: "critical", free: true,
				authorities: append(slices.Clone(senderAuthorities), "critical_notifications.write"),
				bullets: []string{"register and send notifications", "own templates",
					"critical notifications, which users cannot unsubscribe from"},
			},
		},
	},
}

// senderAuthorities are those of a client that sends notifications.
var senderAuthorities = []string{"notifications.write", "notifications.manage", "notification_templates.write",
	"notification_templates.read"}

// The allowed values of parameters. The first is the default.
var (
	extensions = []string{"btree_gin", "btree_gist", "citext", "fuzzystrmatch", "hstore", "intarray", "ltree",
		"pg_trgm", "pgcrypto", "unaccent", "uuid-ossp"}
	characterSets = []string{"utf8mb4", "utf8mb3", "latin1", "ascii"}
	evictions     = []string{"noeviction", "allkeys-lru", "allkeys-lfu", "volatile-lru", "volatile-ttl"}
)

func findOffering(is func(offering) bool) (offering, bool) {
	i := slices.IndexFunc(offerings, is)
	if i < 0 {
		return offering{}, false
	}
	return offerings[i], true
}

func offeringNamed(name string) (offering, bool) {
	return findOffering(func(o offering) bool { return o.name == name })
}

func offeringByID(id string) (offering, bool) {
	return findOffering(func(o offering) bool { return o.id == id })
}

func (o offering) plan(id string) (plan, bool) {
	for _, p := range o.plans {
		if p.id == id {
			return p, true
		}
	}
	return plan{}, false
}

// planOf returns the plan of an instance, which was validated when it was created.
func planOf(i *instance) plan {
	o, _ := offeringNamed(i.Offering)
	p, _ := o.plan(i.PlanID)
	return p
}

// service returns the offering as shown in the catalog.
func (o offering) service() domain.Service {
	yes := true
	s := domain.Service{
		ID: o.id, Name: o.name, Description: o.description, Bindable: true, Tags: o.tags,
		InstancesRetrievable: true, BindingsRetrievable: true, PlanUpdatable: len(o.plans) > 1,
		Metadata: &domain.ServiceMetadata{
			DisplayName: o.title, LongDescription: o.long, ProviderDisplayName: "Ingot", Shareable: &yes,
		},
	}
	polling := 600
	for _, p := range o.plans {
		bullets := []string{
			fmt.Sprintf("up to %d connections", p.connections),
			fmt.Sprintf("up to %s of data", sizeText(p.bytes)),
		}
		if p.bullets != nil {
			bullets = p.bullets
		}
		s.Plans = append(s.Plans, domain.ServicePlan{
			ID: p.id, Name: p.name, Description: strings.Join(bullets, ", "), Free: domain.FreeValue(p.free),
			Bindable: &yes, MaximumPollingDuration: &polling,
			Metadata: &domain.ServicePlanMetadata{
				DisplayName: strings.ToUpper(p.name[:1]) + p.name[1:], Bullets: bullets,
				Costs: []domain.ServicePlanCost{{Amount: map[string]float64{"usd": p.usd}, Unit: "MONTHLY"}},
			},
			Schemas: &domain.ServiceSchemas{
				Instance: domain.ServiceInstanceSchema{Create: schema(o.create), Update: schema(nil)},
				Binding:  domain.ServiceBindingSchema{Create: schema(nil)},
			},
		})
	}
	return s
}

func schema(properties map[string]any) domain.Schema {
	if properties == nil {
		properties = map[string]any{}
	}
	return domain.Schema{Parameters: map[string]any{
		"$schema": "http://json-schema.org/draft-04/schema#", "type": "object",
		"properties": properties, "additionalProperties": false,
	}}
}

func sizeText(n int64) string {
	if n >= gib {
		return fmt.Sprintf("%d GB", n/gib)
	}
	return fmt.Sprintf("%d MB", n/mib)
}

// parameters are the parameters of a new instance, of all offerings.
type parameters struct {
	Extensions      []string `json:"extensions"`
	CharacterSet    string   `json:"character_set"`
	MaxmemoryPolicy string   `json:"maxmemory_policy"`
}

// readParameters parses parameters and checks them against the properties of a
// schema.
func readParameters(raw json.RawMessage, allowed map[string]any) (parameters, error) {
	var p parameters
	if len(raw) == 0 || string(raw) == "null" {
		return p, nil
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return p, fmt.Errorf("parameters must be a JSON object")
	}
	for name, value := range given {
		if _, ok := allowed[name]; !ok {
			known := "none are supported"
			if len(allowed) > 0 {
				known = "known: " + strings.Join(sortedKeys(allowed), ", ")
			}
			return p, fmt.Errorf("unknown parameter %q; %s", name, known)
		}
		var ok bool
		var words []string
		switch name {
		case "extensions":
			words = extensions
			ok = json.Unmarshal(value, &p.Extensions) == nil &&
				!slices.ContainsFunc(p.Extensions, func(e string) bool { return !slices.Contains(extensions, e) })
		case "character_set":
			words = characterSets
			ok = json.Unmarshal(value, &p.CharacterSet) == nil && slices.Contains(characterSets, p.CharacterSet)
		case "maxmemory_policy":
			words = evictions
			ok = json.Unmarshal(value, &p.MaxmemoryPolicy) == nil && slices.Contains(evictions, p.MaxmemoryPolicy)
		}
		if !ok {
			return p, fmt.Errorf("parameter %s must be one of %s", name, strings.Join(words, ", "))
		}
	}
	return p, nil
}

func sortedKeys(m map[string]any) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
