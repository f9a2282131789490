-- A segment of up to half a page is one row. By default whatever is above 2 KB goes into a second table, cut to pieces, each with an
-- entry in a second index: some ten messages pushed together would pay for that.
ALTER TABLE {schema}.segments SET (toast_tuple_target = 4064);
