//! The integration tests of `lab` in one binary: one link instead of one for each file.

mod a_run_is_read_back_from_its_directory;
mod capture;
mod experiments_run_against_a_server_of_a_few_lines;
mod mock_server;
mod reports_are_drawn_from_files;
mod what_workloads_send;
