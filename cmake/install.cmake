# Installs library, headers, CMake package and pkg-config file; cli/ installs the command.
include(CMakePackageConfigHelpers)

set(mxgemm_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mxgemm)
install(TARGETS mxgemm EXPORT mxgemm-targets FILE_SET HEADERS)
install(EXPORT mxgemm-targets NAMESPACE mxgemm:: DESTINATION ${mxgemm_cmake_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/mxgemm-config.cmake.in mxgemm-config.cmake
  INSTALL_DESTINATION ${mxgemm_cmake_dir})
# Before 1.0 a new minor version may change the API.
write_basic_package_version_file(mxgemm-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mxgemm-config.cmake
              ${PROJECT_BINARY_DIR}/mxgemm-config-version.cmake
        DESTINATION ${mxgemm_cmake_dir})

# The prefix follows the file, so an installed tree can be moved. An absolute library folder cannot.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(mxgemm_pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH mxgemm_pc_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
  string(REGEX REPLACE "/$" "" mxgemm_pc_prefix "\${pcfiledir}/${mxgemm_pc_prefix}")
endif()
cmake_path(APPEND mxgemm_pc_libdir "\${prefix}" "${CMAKE_INSTALL_LIBDIR}")
cmake_path(APPEND mxgemm_pc_includedir "\${prefix}" "${CMAKE_INSTALL_INCLUDEDIR}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/mxgemm.pc.in mxgemm.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/mxgemm.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
