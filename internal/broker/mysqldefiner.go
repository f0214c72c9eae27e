package broker

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// definition is a database object that runs with the rights of the user that
// defined it.
type definition struct {
	kind, name string
	column     string // of SHOW CREATE, with the statement
}

// transferDefinitions makes the instance's owner the definer of a user's objects,
// which could not be used any more after the user is deleted.
func (m *mariadb) transferDefinitions(ctx context.Context, i *instance, b *binding) error {
	conn := m.admin // one connection, see alone
	list, err := definitions(ctx, conn, i, b)
	if err != nil || len(list) == 0 {
		return err
	}
	for _, s := range []string{"USE `" + i.database() + "`", "SET @old_mode = @@sql_mode"} {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), //nolint:errcheck // the connection is broken then
		"SET sql_mode = @old_mode")
	for _, d := range list {
		if err := m.redefine(ctx, conn, i, b, d); err != nil {
			return fmt.Errorf("%s %s: %w", d.kind, d.name, err)
		}
	}
	return nil
}

func definitions(ctx context.Context, conn querier, i *instance, b *binding) ([]definition, error) {
	const query = `
		SELECT 'VIEW', table_name, 'Create View' FROM information_schema.views WHERE table_schema = ? AND definer = ?
		UNION ALL SELECT 'TRIGGER', trigger_name, 'SQL Original Statement' FROM information_schema.triggers WHERE trigger_schema = ? AND definer = ?
		UNION ALL SELECT routine_type, routine_name, IF(routine_type = 'FUNCTION', 'Create Function', 'Create Procedure')
			FROM information_schema.routines WHERE routine_schema = ? AND definer = ? AND routine_type IN ('FUNCTION', 'PROCEDURE')
		UNION ALL SELECT 'EVENT', event_name, 'Create Event' FROM information_schema.events WHERE event_schema = ? AND definer = ?`
	definer := i.user(b) + "@%"
	var args []any
	for range 4 {
		args = append(args, i.database(), definer)
	}
	rows, err := conn.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []definition
	for rows.Next() {
		var d definition
		if err := rows.Scan(&d.kind, &d.name, &d.column); err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, rows.Err()
}

// redefine creates an object again, with the owner as definer.
func (m *mariadb) redefine(ctx context.Context, conn querier, i *instance, b *binding, d definition) error {
	name := "`" + strings.ReplaceAll(d.name, "`", "``") + "`"
	columns, err := showCreate(ctx, conn, d.kind, name)
	if err != nil {
		return err
	}
	statement := columns[d.column]
	was := "DEFINER=`" + i.user(b) + "`@`%`"
	head, rest, found := strings.Cut(statement, was)
	if !found || !strings.HasPrefix(head, "CREATE") {
		return fmt.Errorf("no definer where one was expected")
	}
	if mode, ok := columns["sql_mode"]; ok {
		if _, err := conn.ExecContext(ctx, "SET sql_mode = ?", mode); err != nil {
			return err
		}
	}
	_, err = conn.ExecContext(ctx, "CREATE OR REPLACE"+strings.TrimPrefix(head, "CREATE")+"DEFINER=`"+i.owner()+
		"`@`%`"+rest)
	return err
}

// showCreate returns the columns of SHOW CREATE by their names.
func showCreate(ctx context.Context, conn querier, kind, name string) (map[string]string, error) {
	rows, err := conn.QueryContext(ctx, "SHOW CREATE "+kind+" "+name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values := make([]sql.NullString, len(names))
	into := make([]any, len(names))
	for n := range values {
		into[n] = &values[n]
	}
	if rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
	}
	columns := map[string]string{}
	for n, name := range names {
		columns[name] = values[n].String
	}
	return columns, rows.Err()
}
