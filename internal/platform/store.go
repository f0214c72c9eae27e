package platform

import (
	"context"
	"errors"
)

// ErrNoSecret means that no server has created a secret of the installation yet.
var ErrNoSecret = errors.New("the secret does not exist")

// Store stores the resources of the platform. All access is through transactions: View reads one
// snapshot and cannot write; Update is serializable and atomic, and may run its
// function more than once.
//
// Reading a resource that does not exist returns fault.NotFound; a write that
// violates uniqueness returns fault.Conflict. The caller provides the message for
// the user.
type Store interface {
	View(ctx context.Context, f func(Tx) error) error
	Update(ctx context.Context, f func(Tx) error) error
}

// Tx is a transaction.
type Tx interface {
	Context() context.Context
	// Announce passes changes to the store's Sink once the transaction has
	// committed. Every write of a kind that Changes names must be announced.
	Announce(c Changes)

	Organizations() Repo[Organization]
	Spaces() Repo[Space]
	OrganizationQuotas() Repo[OrganizationQuota]
	SpaceQuotas() Repo[SpaceQuota]
	IsolationSegments() Repo[IsolationSegment]
	SecurityGroups() Repo[SecurityGroup]
	NetworkPolicies() Repo[NetworkPolicy]
	Users() Repo[User]
	Roles() Repo[Role]
	Domains() Repo[Domain]
	Routes() Repo[Route]
	Destinations() Repo[Destination]
	Apps() Repo[App]
	Processes() Repo[Process]
	Sidecars() Repo[Sidecar]
	Packages() Repo[Package]
	Builds() Repo[Build]
	Droplets() Repo[Droplet]
	Deployments() Repo[Deployment]
	Revisions() Repo[Revision]
	Tasks() Repo[Task]
	Instances() Repo[Instance]
	InstanceRestarts() Repo[InstanceRestart]
	Buildpacks() Repo[Buildpack]
	Stacks() Repo[Stack]
	AuditEvents() Repo[AuditEvent]
	Jobs() Repo[Job]
	AppUsageEvents() Repo[AppUsageEvent]
	ServiceUsageEvents() Repo[ServiceUsageEvent]
	ServiceBrokers() Repo[ServiceBroker]
	ServiceOfferings() Repo[ServiceOffering]
	ServicePlans() Repo[ServicePlan]
	ServiceInstances() Repo[ServiceInstance]
	ServiceBindings() Repo[ServiceBinding]
	CredentialRotations() Repo[CredentialRotation]
	GitSources() Repo[GitSource]

	FeatureFlags() ([]FeatureFlag, error) // only those that were set
	SetFeatureFlag(FeatureFlag) error
	EnvGroup(name string) (EnvGroup, error)
	SetEnvGroup(EnvGroup) error

	// Once reports whether it is called with the name for the first time in the life
	// of the installation, and remembers the name.
	Once(name string) (bool, error)
}

// Repo holds all resources of one kind.
type Repo[T any] interface {
	Get(guid string) (*T, error)
	// List returns a page of the matches and their total number. With PerPage 0 it
	// returns all.
	List(q Query) (page []*T, total int, err error)
	// First returns the first match, or fault.NotFound.
	First(q Query) (*T, error)
	Count(q Query) (int, error)
	// Insert fills in guid and times where they are zero.
	Insert(*T) error
	// Update stores all fields and sets Updated to now.
	Update(*T) error
	Delete(guid string) error
	// DeleteAll removes all matches and returns their number.
	DeleteAll(q Query) (int, error)
}

// Query selects resources.
type Query struct {
	Where  []Cond
	Labels []LabelRequirement
	// Reader restricts the result to what a user can see; nil means no restriction.
	Reader *Reader
	// Order is a field name; empty means by creation.
	Order   string
	Desc    bool
	Page    int // from 1
	PerPage int // 0 means all
	// WithoutSecrets leaves encrypted fields empty. Such a result must not be
	// passed to Update.
	WithoutSecrets bool
	// Only lists the columns to read, for lists of everything; the other fields stay empty, and the order is any.
	// Such a result must not be passed to Update.
	Only []string
}

// Reader is the user a list is for. What a user can see follows from their roles,
// by the rules of each kind of resource.
type Reader struct{ UserGUID string }

// Where starts a query with one condition.
func Where(field string, values ...any) Query {
	return Query{Where: []Cond{In(field, values...)}}
}

// WithoutSecrets returns the query for rows without their sealed fields.
func WithoutSecrets(q Query) Query {
	q.WithoutSecrets = true
	return q
}

// And adds a condition.
func (q Query) And(c Cond) Query {
	q.Where = append(append([]Cond{}, q.Where...), c)
	return q
}

// Cond is one condition on a field. Fields have the names of the v3 API:
// "name", "space_guid", "organization_guid", "app_guid", "state" …; the store
// defines them, and an unknown one is an error.
type Cond struct {
	Field  string
	Op     Op
	Values []any
}

// Op is a comparison.
type Op int

// The comparisons. OpIn with no values matches nothing.
const (
	OpIn Op = iota
	OpNotIn
	OpLess
	OpLessEqual
	OpGreater
	OpGreaterEqual
	OpNull
	OpNotNull
	// OpInSeconds matches times within any of the seconds that the values begin.
	OpInSeconds
)

// In matches any of values.
func In(field string, values ...any) Cond { return Cond{Field: field, Values: values} }

// InStrings matches any of values.
func InStrings(field string, values []string) Cond {
	c := Cond{Field: field}
	for _, v := range values {
		c.Values = append(c.Values, v)
	}
	return c
}

// LabelRequirement is one part of a label selector.
type LabelRequirement struct {
	Key    string
	Op     LabelOp
	Values []string
}

// LabelOp is how a label is compared.
type LabelOp int

// The comparisons of labels.
const (
	LabelExists LabelOp = iota
	LabelAbsent
	LabelIn
	LabelNotIn
)

// Changes is what a transaction tells others about itself with Tx.Announce. It
// names what to look at again; the rows are in the store.
type Changes struct {
	// Lines are written to the logs of apps.
	Lines []LogLine
	// Routes are the guids of routes whose entry in the route table follows from
	// what was written: the route, its destinations or its route service.
	Routes []string
	// Names means that apps, spaces or organizations have other names, or an app
	// another list of processes.
	Names bool
	// Rules means that other rules apply to the connections of instances: security
	// groups or network policies changed.
	Rules bool
	// Apps are the guids of apps whose instances, tasks or bindings may have to change.
	Apps []string
	// Bindings means that log drains of apps may have to change.
	Bindings bool
	// Builds are the guids of new builds.
	Builds []string
	// Tasks means that tasks were created or canceled.
	Tasks bool
}

// Empty reports whether there is nothing to tell.
func (c *Changes) Empty() bool {
	return len(c.Lines)+len(c.Routes)+len(c.Apps)+len(c.Builds) == 0 && !c.Names && !c.Rules && !c.Bindings && !c.Tasks
}

// Add adds more changes.
func (c *Changes) Add(more Changes) {
	c.Lines = append(c.Lines, more.Lines...)
	c.Routes = append(c.Routes, more.Routes...)
	c.Names = c.Names || more.Names
	c.Rules = c.Rules || more.Rules
	c.Apps = append(c.Apps, more.Apps...)
	c.Bindings = c.Bindings || more.Bindings
	c.Builds = append(c.Builds, more.Builds...)
	c.Tasks = c.Tasks || more.Tasks
}

// Sink receives the changes that transactions of a store announce.
type Sink interface {
	// Changed is called after a transaction has committed, before Update returns
	// to its caller, with what the transaction announced. A transaction that was
	// rolled back announces nothing. When the commit itself fails, whether it
	// happened may be unknown: then Changed gets no Lines, but the others, which
	// only ask to look again.
	Changed(ctx context.Context, c Changes)
}
